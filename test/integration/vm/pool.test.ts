import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { finalizer } from '../../../src/api/meta.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { controllerOf } from '../../../src/api/owner.ts';
import { namespaces, pods, vmConfigs, vmPools, vms } from '../../../src/api/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { eject } from '../../../src/usecases/ejection.ts';
import { startTestApi } from '../../support/api.ts';
import { holdWatches } from '../../support/heldwatches.ts';
import { slow, vmWorld, type VmNamespace, type VmWorld } from './harness.ts';
import { type Kill, killedAfter, poolWorld, template } from './poolworld.ts';

let world: VmWorld;
const { operate, stopAll, aPool, claim, pool, idle, podsOf, expectOneToOne } = poolWorld(() => world);

const serve = (space: VmNamespace, name: string) =>
  world.client.create(vms, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace: space.name, finalizers: [finalizer] },
    spec: { config: 'builder', powerState: 'Running' },
  });

beforeAll(async () => {
  world = await vmWorld();
  await Promise.all(
    ['n1', 'n2'].map((name) => world.kubelet.addNode({ name, allocatable: { cpu: '64', memory: '128Gi' } })),
  );
});
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
  // An operator that starts has heard that the pool is gone, and the label shows that it has looked at the VM.
  await stopAll();
  await operate();
  const labelled = { type: 'merge' as const, body: { metadata: { labels: { seen: '1' } } } };
  await world.client.patch(vms, { name: 'job', namespace: space.name }, labelled);
  const podOfJob = async () =>
    (await podsOf(space)).find(({ metadata }) => metadata.name === status?.podName);
  await expect.poll(podOfJob, slow).toMatchObject({ metadata: labelled.body.metadata });
  await expectOneToOne(space, 1);
  // What the garbage collector goes by.
  const owners = (await podOfJob())?.metadata.ownerReferences?.map(({ kind, name }) => `${kind} ${name}`);
  expect(owners).toEqual(['VM job']);
});

test('a pool of ARM guests fills, and serves a VM', async () => {
  const space = await world.namespace('arms');
  await world.kubelet.addNode({ name: 'arm', architecture: 'arm64' });
  await operate();
  await aPool(space, { minIdle: 1, template: { ...template, architecture: 'arm64' } });
  await expect.poll(() => idle(space), slow).toBe(1);
  await claim(space, 'job');
  await space.untilReady('job');
  expect((await space.vm('job')).status).toMatchObject({
    node: 'arm',
    podName: expect.stringMatching(/^svc3-pool-ci-/),
    effective: { architecture: 'arm64' },
  });
});

test('a VM that is made again under its name gets a guest that waits although the pod of the one before is not gone', async () => {
  const space = await world.namespace('again');
  await operate();
  await aPool(space);
  await expect.poll(() => idle(space), slow).toBe(2);
  const before = { name: 'svc3-vm-job', namespace: space.name };
  await world.client.create(pods, {
    metadata: { ...before, finalizers: ['example.com/held'] },
    spec: { containers: [{ name: 'runner', image: 'registry.example.com/runner:1' }] },
  });
  onTestFinished(async () => {
    const free = { type: 'merge', body: { metadata: { finalizers: null } } } as const;
    await world.client.patch(pods, before, free);
  });
  await world.client.delete(pods, before);
  await claim(space, 'job');
  await space.untilReady('job');
  expect((await space.vm('job')).status?.podName).toMatch(/^svc3-pool-ci-/);
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

test('the medium that the template of its pool gives a VM is taken out, and no other put in', async () => {
  const space = await world.namespace('ejects');
  await claim(space, 'job');
  const find = () => space.vm('job');
  expect(await eject({ caller: world.client, find })).toBe('The CD drive of vm job is being emptied');
  expect((await find()).spec.iso).toBe('');
  const other = { type: 'merge', body: { spec: { iso: 'installer' } } } as const;
  const put = world.client.patch(vms, { name: 'job', namespace: space.name }, other);
  await expect(put).rejects.toThrow('pool excludes iso, which the template of the pool fixes');
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

test('clients that know nothing of pools and send all their defaults are served: one of 2.4.x, and one of /api/v1', async () => {
  const space = await world.namespace('clients');
  await operate();
  // As with kubectl: the clients have other words for the same.
  const { spec, ...builder } = config(space);
  await world.client.create(vmConfigs, { ...builder, spec: { ...spec, memory: '65536Ki' } });
  await aPool(space, { template: { config: 'builder' }, serveConfig: true });
  await expect.poll(() => idle(space), slow).toBe(2);
  const api = await startTestApi(world.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
  onTestFinished(() => api.close());
  const { adminToken: token } = world.controlPlane;
  const headers = { 'x-svc3-namespace': space.name };
  const legacy = {
    svc_vm_name: 'builder',
    replicas: 1,
    reserved_ports: [],
    vm_metadata: { items: [] },
    vnc_console: true,
    gpu_passthrough: false,
    system_serial: '',
    tag: '',
    tag_required: false,
    scheduler: 'default',
    iso_image: 'None',
    timeout: 10,
  };
  const today = {
    name: 'job',
    vmConfig: 'builder',
    cpu: 1,
    memory: 0.0625,
    vncConsole: true,
    netBoost: true,
    legacyIO: false,
    diskStorage: 'ephemeral',
    suspendTo: 'Memory',
    onEviction: 'Shutdown',
  };
  const v1 = `/api/v1/namespaces/${space.name}/vms`;
  const answers = [
    await api.call('POST', '/resources/vm/deploy', { token, headers, body: legacy }),
    await api.call('POST', v1, { token, body: today }),
  ];
  expect(answers.map(({ status, text }) => (status === 200 ? status : text))).toEqual([200, 200]);
  for (const name of ['builder', 'job'])
    expect((await space.vm(name)).status?.podName).toMatch(/^svc3-pool-ci-/);
  await expectOneToOne(space, 2);
  await expect.poll(async () => (await pool(space)).status, slow).toMatchObject({ idle: 2, claimed: 2 });
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
  const [space, other] = [await world.namespace('elsewhere'), await world.namespace('with-a-pool')];
  await operate();
  await aPool(other, { minIdle: 1 });
  await expect.poll(() => idle(other), slow).toBe(1);
  await claim(space, 'job');
  await space.until('job', 'Scheduled', { status: 'False', reason: 'PoolNotFound' });
  expect(await podsOf(space)).toEqual([]);
  // One of its own namespace gets the guest that was offered to no other.
  await claim(other, 'job');
  await other.untilReady('job');
  await expectOneToOne(other, 1);
  expect((await other.vm('job')).status?.podName).toMatch(/^svc3-pool-ci-/);
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

const kills = [0, 1, 2].flatMap((after) => [
  { after, isWritten: false, sentence: `before write ${after + 1}` },
  { after, isWritten: true, sentence: `with write ${after + 1} done and its reply lost` },
]);

/** A claim whose operator is killed in the midst of it; nobody works then. */
async function killedClaim(name: string, kill: Kill): Promise<VmNamespace> {
  const space = await world.namespace(name);
  const filling = await operate();
  await aPool(space, { minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  await filling.stop();
  const { client, died } = killedAfter(world.client, kill);
  const killed = await operate(client);
  await claim(space, 'job');
  await died;
  await killed.stop();
  return space;
}

test.each(kills)(
  'an operator that is killed $sentence of a claim is followed by one that ends it',
  async (kill) => {
    const space = await killedClaim(`killed-${kill.after}-${kill.isWritten}`, kill);
    await operate();
    await space.untilReady('job');
    await expectOneToOne(space, 1);
    expect((await space.vm('job')).status?.podName).toMatch(/^svc3-pool-ci-/);
  },
);

test.each(kills)(
  'a VM that is deleted where its claim was cut off $sentence leaves a pool as if it had never been',
  async (kill) => {
    const space = await killedClaim(`deleted-${kill.after}-${kill.isWritten}`, kill);
    await space.delete('job');
    await operate();
    await space.untilGone('job');
    await expect.poll(async () => (await pool(space)).status, slow).toMatchObject({ idle: 1, claimed: 0 });
    await expect.poll(async () => (await podsOf(space)).length, slow).toBe(1);
  },
);

test('a pool that is deleted while VMs claim its guests takes none from them', async () => {
  const space = await world.namespace('dissolved');
  await operate();
  await aPool(space, { minIdle: 3 });
  await expect.poll(() => idle(space), slow).toBe(3);
  const names = Array.from({ length: 6 }, (_, i) => `job-${i}`);
  const isClaimed = async (name: string) => (await space.vm(name)).status?.podName !== undefined;
  const deletedMeanwhile = async () => {
    await expect.poll(async () => (await Promise.all(names.map(isClaimed))).includes(true), slow).toBe(true);
    await world.client.delete(vmPools, { name: 'ci', namespace: space.name });
  };
  await Promise.all([deletedMeanwhile(), ...names.map((name) => claim(space, name))]);
  const outcome = async (name: string) => {
    const [ready, scheduled] = await Promise.all([
      space.condition(name, 'Ready'),
      space.condition(name, 'Scheduled'),
    ]);
    return ready.status === 'True' ? 'Ready' : scheduled.reason;
  };
  for (const name of names) await expect.poll(() => outcome(name), slow).toMatch(/^(Ready|PoolNotFound)$/);
  const served: string[] = [];
  for (const name of names) if ((await outcome(name)) === 'Ready') served.push(name);
  expect(served).not.toEqual([]);
  const guests = async () => {
    const all = await podsOf(space);
    return Promise.all(
      served.map(async (name) => {
        const { podName } = (await space.vm(name)).status ?? {};
        const { uid, ownerReferences } =
          all.find(({ metadata }) => metadata.name === podName)?.metadata ?? {};
        return { name, uid, owners: ownerReferences?.map((owner) => `${owner.kind} ${owner.name}`) };
      }),
    );
  };
  const before = await guests();
  expect(before).toEqual(served.map((name) => ({ name, uid: expect.any(String), owners: [`VM ${name}`] })));
  // What the garbage collector takes with the pool it has taken then.
  const others = async () => (await podsOf(space)).filter((pod) => controllerOf(pod)?.kind !== 'VM');
  await expect.poll(others, slow).toEqual([]);
  for (const name of names) if (!served.includes(name)) await space.remove(name);
  await expectOneToOne(space, served.length);
  for (const name of served) await space.untilReady(name);
  expect(await guests()).toEqual(before);
});

const quotas: Resource<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'resourcequotas',
  kind: 'ResourceQuota',
  namespaced: true,
};

/** No more pods than there is one guest, by whatever refuses them. */
const refusals = [
  {
    by: 'Pod Security',
    words: 'violates PodSecurity',
    // Their pods ask for host ports.
    refuse: (name: string) =>
      world.client.patch(
        namespaces,
        { name },
        {
          type: 'merge',
          body: { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } } },
        },
      ),
  },
  {
    by: 'a ResourceQuota that guests of its pool use up',
    words: 'exceeded quota: one',
    refuse: (namespace: string) =>
      world.client.create(quotas, {
        metadata: { name: 'one', namespace },
        spec: { hard: { pods: '1' } },
      } as KubeObject),
  },
];

test.each(refusals)(
  'a VM whose own pod is refused by $by gets the next of them that waits, and the pool says why it makes no other',
  async ({ words, refuse }) => {
    const space = await world.namespace(`refused-by-${words.split(' ')[0]}`);
    world.kubelet.behave(() => ({ kind: 'unready' }));
    onTestFinished(() => world.kubelet.behave(() => ({ kind: 'run' })));
    await operate();
    await aPool(space, { minIdle: 1 });
    await expect.poll(() => podsOf(space), slow).toHaveLength(1);
    const [guest] = await podsOf(space);
    await refuse(space.name);
    await expect.poll(() => space.tryPod(), slow).toMatch(words);
    await claim(space, 'job');
    const refused = {
      status: 'False' as const,
      reason: 'PodRefused',
      message: expect.stringContaining(words),
    };
    await space.until('job', 'Scheduled', refused);
    world.kubelet.behave(() => ({ kind: 'run' }));
    await space.untilReady('job');
    expect((await space.vm('job')).status?.podName).toBe(guest?.metadata.name);
    await expectOneToOne(space, 1);
    const ready = async () =>
      (await pool(space)).status?.conditions?.find(({ type }) => type === 'Ready') ?? {};
    await expect.poll(ready, slow).toMatchObject(refused);
  },
);

test('a VM whose own pod is left to kube-scheduler, which finds no node for it, gets the next guest that waits', async () => {
  const space = await world.namespace('left-to-scheduler');
  world.kubelet.behave(() => ({ kind: 'unready' }));
  onTestFinished(() => world.kubelet.behave(() => ({ kind: 'run' })));
  await world.kubelet.addNode({
    name: 'n3',
    labels: { 'tag.svc3.dev/single': 'true' },
    allocatable: { pods: '1' },
  });
  await operate(world.client, {}, { whenFull: 'Pod' });
  await aPool(space, { template: { ...template, tag: 'single', tagRequired: true }, minIdle: 1 });
  await expect.poll(() => podsOf(space), slow).toHaveLength(1);
  const [guest] = await podsOf(space);
  await claim(space, 'job');
  await space.until('job', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
  expect((await space.vm('job')).status?.podName).toBe('svc3-vm-job');
  world.kubelet.behave(() => ({ kind: 'run' }));
  await space.untilReady('job');
  expect((await space.vm('job')).status?.podName).toBe(guest?.metadata.name);
  await expectOneToOne(space, 1);
});

test('a VM is told which ports the installation does not allow to the guest of its pool, as one that boots', async () => {
  const space = await world.namespace('ports');
  await operate();
  const ports = [{ guestPort: 80, nodePort: 19_000 }];
  await aPool(space, { template: { ...template, ports }, minIdle: 1 });
  await expect.poll(() => idle(space), slow).toBe(1);
  await claim(space, 'job');
  await space.untilReady('job');
  await space.until('job', 'PortsMapped', { status: 'False', reason: 'PortNotAllowed' });
  const { podName, warnings } = (await space.vm('job')).status ?? {};
  expect(podName).toMatch(/^svc3-pool-ci-/);
  expect(warnings).toEqual([expect.stringMatching(/nodePort 19000 is not in the allowed range/)]);
});
