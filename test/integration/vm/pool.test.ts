import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { finalizer, labels } from '../../../src/api/meta.ts';
import { controllerOf } from '../../../src/api/owner.ts';
import { pods, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import type { ClaimRequest } from '../../../src/api/runner.ts';
import type { VmPool, VmPoolSpecInput } from '../../../src/api/vmpool.ts';
import { isSvc3Error, Svc3Error } from '../../../src/errors.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { holdWatches } from '../../support/heldwatches.ts';
import { startVmOperator, type VmOperator } from '../../support/operator.ts';
import { runnerState } from '../../unit/controllers/vm/builders.ts';
import { slow, vmWorld, type VmNamespace, type VmWorld } from './harness.ts';

let world: VmWorld;
let operators: VmOperator[] = [];
/** UID of the VM that each pod was claimed for first, as its runner keeps it. */
const claimedBy = new Map<string, string>();

/** Runners of guests that wait, each of which takes one VM. */
const parts = () => ({
  openRunner: ({ vmUid }: { vmUid: string }) => ({
    state: async () => runnerState({ vmUid, guestReady: true }),
    power: () => Promise.reject(new Error('not asked for')),
    resize: () => Promise.reject(new Error('not asked for')),
    eject: () => Promise.reject(new Error('not asked for')),
    ports: async () => runnerState({ vmUid, guestReady: true }),
    async claim({ podUid, vm }: ClaimRequest) {
      if (vmUid !== podUid) throw new Svc3Error('Unauthorized', 'meant for another VM');
      if ((claimedBy.get(podUid) ?? vm.uid) !== vm.uid) throw new Svc3Error('Conflict', 'of another VM');
      claimedBy.set(podUid, vm.uid);
      return runnerState({ vmUid: vm.uid, guestReady: true });
    },
    fingerprint: () => 'print',
  }),
});

async function operate(client: KubeClient = world.client): Promise<VmOperator> {
  const operator = await startVmOperator(client, {}, parts);
  operators.push(operator);
  return operator;
}

async function stopAll(): Promise<void> {
  await Promise.all(operators.map((one) => one.stop()));
  operators = [];
}

const template = {
  image: `r.example.com/debian@sha256:${'a'.repeat(64)}`,
  architecture: 'amd64',
  cpu: 1,
  memory: '64Mi',
} as const;

async function aPool(space: VmNamespace, spec: Partial<VmPoolSpecInput> = {}): Promise<void> {
  await world.client.create(vmPools, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMPool',
    metadata: { name: 'ci', namespace: space.name },
    spec: { template, minIdle: 2, ...spec } as VmPool['spec'],
  });
}

const claim = (space: VmNamespace, name: string) =>
  world.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace: space.name },
    spec: { pool: 'ci', powerState: 'Running' },
  });

const serve = (space: VmNamespace, name: string) =>
  world.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace: space.name, finalizers: [finalizer] },
    spec: { config: 'builder', powerState: 'Running' },
  });

const pool = (space: VmNamespace) => world.client.get(vmPools, 'ci', space.name);
const idle = async (space: VmNamespace) => (await pool(space)).status?.idle;
const podsOf = async (space: VmNamespace) => (await world.client.list(pods, { namespace: space.name })).items;

/** Every VM runs in a pod of its own, and every pod that a VM has is that of one. */
async function expectOneToOne(space: VmNamespace, count: number): Promise<void> {
  const { items } = await world.client.list(vms, { namespace: space.name });
  expect(items).toHaveLength(count);
  const names = items.map(({ status }) => status?.podName);
  expect(new Set(names).size).toBe(count);
  const owned = (await podsOf(space)).filter((pod) => controllerOf(pod)?.kind === 'VM');
  expect(new Set(owned.map(({ metadata }) => metadata.name))).toEqual(new Set(names));
  expect(owned).toHaveLength(count);
  for (const { metadata, status } of items) {
    const pod = owned.find((one) => one.metadata.name === status?.podName);
    expect(controllerOf(pod ?? {})?.uid).toBe(metadata.uid);
    expect(pod?.metadata.labels?.[labels.vm]).toBe(metadata.name);
    const told = claimedBy.get(pod?.metadata.uid ?? '');
    if (pod?.metadata.labels?.[labels.pool] !== undefined) expect(told).toBe(metadata.uid);
  }
}

beforeAll(async () => {
  world = await vmWorld();
  await Promise.all(
    ['n1', 'n2'].map((name) => world.kubelet.addNode({ name, allocatable: { cpu: '64', memory: '128Gi' } })),
  );
}, 120_000);
afterEach(stopAll);
afterAll(() => world.stop());

test('a pool fills, serves a VM with a guest that waits, and fills up again; deleted, it leaves the VM alone', async () => {
  const space = await world.namespace('fills');
  await operate();
  await aPool(space);
  await expect.poll(() => idle(space), slow).toBe(2);
  const waiting = (await podsOf(space)).map(({ metadata }) => metadata.name);
  await claim(space, 'job');
  await space.untilReady('job');
  const { status } = await space.vm('job');
  expect(waiting).toContain(status?.podName);
  expect(status?.effective?.cpu).toBe(1);
  await expectOneToOne(space, 1);
  await expect.poll(async () => (await pool(space)).status, slow).toMatchObject({ idle: 2, claimed: 1 });
  await world.client.delete(vmPools, { name: 'ci', namespace: space.name });
  await space.untilReady('job');
  expect((await space.vm('job')).status?.podName).toBe(status?.podName);
});

test('a VM of a pool that overrides what the template fixes is refused with all those fields', async () => {
  const space = await world.namespace('overrides');
  const refused: unknown = await space
    .deploy('job', { pool: 'ci', sshAuthorizedKeys: ['k'] })
    .catch((error) => error);
  const causes = isSvc3Error(refused, 'Invalid') ? (refused.details.causes ?? []) : [];
  expect(causes.map(({ field }) => field).sort()).toEqual(['spec.cpu', 'spec.image', 'spec.memory']);
  expect(causes[0]?.message).toMatch(/pool excludes \w+, which the template of the pool fixes/);
});

const config = (space: VmNamespace, metadata: { name: string; value: string }[] = []) => ({
  apiVersion: 'svc3.dev/v1',
  kind: 'VMConfig',
  metadata: { name: 'builder', namespace: space.name },
  spec: { ...template, metadata },
});

test('a VM that knows nothing of the pool that serves it counts as one of its VMs', async () => {
  const space = await world.namespace('served');
  await operate();
  await world.client.create(vmConfigs, config(space));
  await aPool(space, { template: { config: 'builder' }, serveConfig: true, minIdle: 1, maxSize: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  await serve(space, 'job');
  await space.untilReady('job');
  expect((await space.vm('job')).status?.podName).toMatch(/^svc3-pool-ci-/);
  await expect.poll(async () => (await pool(space)).status, slow).toMatchObject({ idle: 0, claimed: 1 });
  expect(await podsOf(space)).toHaveLength(1);
  await space.delete('job');
  await expect.poll(async () => (await pool(space)).status, slow).toMatchObject({ idle: 1, claimed: 0 });
});

test('a VM never gets a guest of what its VMConfig said before, also where the operator has not heard of it yet', async () => {
  const space = await world.namespace('outdated');
  const watches = holdWatches(world.client);
  const asked = Promise.withResolvers<void>();
  await operate({
    ...watches.client,
    async get(...args: Parameters<KubeClient['get']>) {
      const found = await world.client.get(...args);
      if (args[0].plural === vmConfigs.plural) asked.resolve();
      return found;
    },
  } as KubeClient);
  await world.client.create(vmConfigs, config(space, [{ name: 'stage', value: 'old' }]));
  await aPool(space, { template: { config: 'builder' }, serveConfig: true, minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  const [before] = await podsOf(space);
  watches.hold(vmConfigs.plural);
  const metadata = [{ name: 'stage', value: 'new' }];
  await world.client.patch(
    vmConfigs,
    { name: 'builder', namespace: space.name },
    { type: 'merge', body: { spec: { metadata } } },
  );
  await serve(space, 'job');
  await asked.promise;
  watches.release();
  await space.untilReady('job');
  const { status } = await space.vm('job');
  expect(status?.podName).not.toBe(before?.metadata.name);
  expect(status?.effective?.metadata).toEqual(metadata);
});

test.each([
  ['a Persistent disk', { template: { ...template, disk: { storage: 'Persistent' } } }, /disk.storage/],
  ['a GPU', { template: { ...template, gpuPassthrough: 'Enabled' } }, /gpuPassthrough/],
  ['less than waits', { minIdle: 3, maxSize: 2 }, /maxSize must not be less than minIdle/],
] as const)('a pool with %s is refused', async (_what, spec, message) => {
  const space = await world.namespace(`refused-${Math.random().toString(36).slice(2, 8)}`);
  await expect(aPool(space, spec)).rejects.toThrow(message);
});

test('a pool of another namespace is none: the VM waits and says so', async () => {
  const space = await world.namespace('elsewhere');
  await operate();
  await claim(space, 'job');
  await space.until('job', 'Scheduled', { status: 'False', reason: 'PoolNotFound' });
});

test('twenty VMs at once on three guests, under two leaders that know nothing of each other: each runs in a pod of its own', async () => {
  const space = await world.namespace('burst');
  const first = await operate();
  await aPool(space, { minIdle: 3 });
  await expect.poll(() => idle(space), slow).toBe(3);
  await operate();
  const names = Array.from({ length: 20 }, (_, i) => `job-${i}`);
  await Promise.all(names.map((name) => claim(space, name)));
  await first.stop();
  for (const name of names) await space.untilReady(name);
  await expectOneToOne(space, 20);
});

/** A client whose writes after the nth of a claim never come to anything, as where the process is killed there. */
function dyingAfter(writes: number): { client: KubeClient; died: Promise<void> } {
  let left = writes;
  let die: () => void = () => undefined;
  const died = new Promise<void>((resolve) => (die = resolve));
  const spend = (isOfClaim: boolean) => {
    if (isOfClaim && left-- <= 0) {
      die();
      throw new Svc3Error('ServiceUnavailable', 'killed');
    }
  };
  const client: KubeClient = Object.assign(Object.create(world.client) as KubeClient, {
    apply: (...args: Parameters<KubeClient['apply']>) => {
      spend(args[0].plural === 'vms');
      return world.client.apply(...args);
    },
    patch: (...args: Parameters<KubeClient['patch']>) => {
      spend(args[0].plural === 'pods');
      return world.client.patch(...args);
    },
  });
  return { client, died };
}

test.each([0, 1, 2])(
  'an operator that is killed after %i writes of a claim is followed by one that ends it',
  async (writes) => {
    const space = await world.namespace(`killed-${writes}`);
    const filling = await operate();
    await aPool(space, { minIdle: 1 });
    await expect.poll(() => idle(space), slow).toBe(1);
    await filling.stop();
    const { client, died } = dyingAfter(writes);
    const killed = await operate(client);
    await claim(space, 'job');
    await died;
    await killed.stop();
    await operate();
    await space.untilReady('job');
    await expectOneToOne(space, 1);
    expect((await space.vm('job')).status?.podName).toMatch(/^svc3-pool-ci-/);
  },
);
