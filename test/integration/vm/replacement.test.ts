import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { events, nodes, persistentVolumeClaims, pods } from '../../../src/api/resources.ts';
import { storageClasses } from '../../support/resources.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import type { KubeObject, Resource } from '../../../src/api/object.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let operator: TestOperator;

beforeAll(async () => {
  world = await vmWorld();
  for (const name of ['n1', 'n2']) await world.kubelet.addNode({ name });
  await world.client.create(storageClasses, {
    metadata: { name: 'static' },
    provisioner: 'kubernetes.io/no-provisioner',
  });
  operator = await startVmOperator(world.client, { storageClassName: 'static' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

const volumes: Resource<KubeObject> = {
  group: '',
  version: 'v1',
  plural: 'persistentvolumes',
  kind: 'PersistentVolume',
  namespaced: false,
};
const budgets: Resource<KubeObject> = {
  group: 'policy',
  version: 'v1',
  plural: 'poddisruptionbudgets',
  kind: 'PodDisruptionBudget',
  namespaced: true,
};

async function makeVolume(name: string): Promise<void> {
  await world.client.create(volumes, {
    metadata: { name },
    spec: {
      capacity: { storage: '100Gi' },
      accessModes: ['ReadWriteOnce'],
      storageClassName: 'static',
      hostPath: { path: '/nowhere' },
    },
  } as KubeObject);
}

/** The call that `kubectl drain` makes for every pod; less time than kube-apiserver asks to wait where it refuses. */
async function evict(pod: Pod): Promise<void> {
  const { name, namespace } = pod.metadata;
  const body = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name, namespace } };
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/eviction`;
  await world.client.request({ method: 'POST', path, body, timeoutMs: 9_000 });
}

async function cordon(node: string, unschedulable: boolean): Promise<void> {
  await world.client.patch(nodes, { name: node }, { type: 'merge', body: { spec: { unschedulable } } });
}

/** The kubelet ends this very pod for good. */
function fail(pod: Pod, reason: string, message: string): void {
  world.kubelet.behave(({ metadata }) =>
    metadata.uid === pod.metadata.uid ? { kind: 'reject', reason, message } : { kind: 'run' },
  );
}

interface Cause {
  readonly title: string;
  strike(pod: Pod): Promise<void> | void;
  /** What the VM's events say about it, besides the disk. */
  readonly event?: string;
}

const causes: readonly Cause[] = [
  {
    title: 'a drain of its node',
    strike: async (pod) => {
      await cordon(pod.spec.nodeName ?? '', true);
      await evict(pod);
    },
  },
  {
    title: 'an eviction by a kubelet that is short of memory',
    strike: (pod) => fail(pod, 'Evicted', 'The node was low on resource: memory.'),
    event: 'Evicted: The node was low on resource: memory.',
  },
  {
    title: 'a shutdown of its node',
    strike: (pod) => fail(pod, 'Terminated', 'Pod was terminated in response to imminent node shutdown.'),
    event: 'Terminated: Pod was terminated in response to imminent node shutdown.',
  },
  {
    title: 'a kubelet that rejects it after a restart',
    strike: (pod) => fail(pod, 'UnexpectedAdmissionError', 'no healthy devices present'),
    event: 'UnexpectedAdmissionError: no healthy devices present',
  },
  {
    title: 'somebody who deletes its pod',
    strike: ({ metadata: { name, namespace } }) => world.client.delete(pods, { name, namespace }),
  },
];

async function messagesOf(space: VmNamespace, reason: string): Promise<string[]> {
  const { items } = await world.client.list(events, { namespace: space.name });
  return items.filter((event) => event.reason === reason).map(({ note = '' }) => note);
}

function stateOf(pod: Pod | undefined) {
  return pod?.spec.volumes?.find(({ name }) => name === 'state');
}

let count = 0;

/** A VM that runs, then is struck and runs again in another pod. */
async function struck(
  storage: 'Persistent' | 'Ephemeral',
  cause: Cause,
): Promise<{
  space: VmNamespace;
  before: Pod;
  after: Pod | undefined;
}> {
  const space = await world.namespace(`struck-${(count += 1)}`);
  await space.deploy('vm', { disk: { storage } });
  await space.untilReady('vm');
  const before = (await space.pod('vm')) as Pod;
  await cause.strike(before);
  // Until then the status is that of the pod before.
  const told = async () => (await space.vm('vm')).status?.runner?.podUid ?? before.metadata.uid;
  await expect.poll(told, slow).not.toBe(before.metadata.uid);
  await space.untilReady('vm');
  const after = await space.pod('vm');
  if (cause.event !== undefined)
    await expect.poll(() => messagesOf(space, 'RejectedByNode'), slow).toEqual([cause.event]);
  return { space, before, after };
}

async function clean(space: VmNamespace): Promise<void> {
  await space.remove('vm');
  for (const node of ['n1', 'n2']) await cordon(node, false);
  world.kubelet.behave(() => ({ kind: 'run' }));
}

describe('a Persistent disk', () => {
  test.each(causes)('is in the next pod after $title', async (cause) => {
    await makeVolume(`volume-${count}`);
    const { space, after } = await struck('Persistent', cause);
    const claim = await world.client.get(persistentVolumeClaims, 'svc3-vm-vm', space.name);
    expect(stateOf(after)).toEqual({ name: 'state', persistentVolumeClaim: { claimName: 'svc3-vm-vm' } });
    expect(claim.status).toMatchObject({ phase: 'Bound' });
    await clean(space);
    // Events of a namespace are written in order.
    await expect.poll(() => messagesOf(space, 'DiskKept'), slow).toHaveLength(1);
    expect(await messagesOf(space, 'DiskReset')).toEqual([]);
  });
});

describe('an Ephemeral disk', () => {
  test.each(causes)('is new after $title, and an event says so', async (cause) => {
    const { space, before, after } = await struck('Ephemeral', cause);
    expect(stateOf(after)).toMatchObject({ name: 'state', emptyDir: {} });
    await expect
      .poll(() => messagesOf(space, 'DiskReset'), slow)
      .toEqual([
        `the changes to the disk went with pod svc3-vm-vm on node ${before.spec.nodeName} (spec.disk.storage is Ephemeral): the VM boots fresh from its image`,
      ]);
    await clean(space);
  });
});

describe('a drain', () => {
  test('goes to another node, and a PodDisruptionBudget of the VM holds it back', async () => {
    const space = await world.namespace('budget');
    await space.deploy('vm');
    await space.untilReady('vm');
    const before = (await space.pod('vm')) as Pod;
    await world.client.create(budgets, {
      metadata: { name: 'vm', namespace: 'budget' },
      spec: { minAvailable: 1, selector: { matchLabels: { 'svc3.dev/vm': 'vm' } } },
    } as KubeObject);
    const refusal = await evict(before).catch((error: unknown) => error);
    expect(isSvc3Error(refusal, 'TooManyRequests')).toBe(true);
    expect((await space.pod('vm'))?.metadata.uid).toBe(before.metadata.uid);
    await world.client.delete(budgets, { name: 'vm', namespace: 'budget' });
    await cordon(before.spec.nodeName ?? '', true);
    await expect.poll(() => evict(before).then(() => 'evicted', String), slow).toBe('evicted');
    await space.untilReplaced('vm', before);
    await space.untilReady('vm');
    const other = before.spec.nodeName === 'n1' ? 'n2' : 'n1';
    await expect.poll(async () => (await space.pod('vm'))?.spec.nodeName, slow).toBe(other);
    await clean(space);
  });
});
