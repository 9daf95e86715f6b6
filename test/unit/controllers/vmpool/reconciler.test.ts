import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Node, Pod } from '../../../../src/api/core.ts';
import { annotations } from '../../../../src/api/meta.ts';
import type { ObjectMeta } from '../../../../src/api/object.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { VmPool, VmPoolStatus } from '../../../../src/api/vmpool.ts';
import { PoolReconciler, type PoolReconcilerParts } from '../../../../src/controllers/vmpool/reconciler.ts';
import { type ErrorReason, Svc3Error } from '../../../../src/errors.ts';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { CPU, emptyVector } from '../../../../src/placement/resources.ts';
import { templateDigest } from '../../../../src/controllers/vm/facts/standby.ts';
import type { ImageAnswer } from '../../../../src/controllers/vm/resolve/imageresolutions.ts';
import { WaitingVms } from '../../../../src/controllers/vm/waiting.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { vmSettings } from '../../../support/operator.ts';
import { aNode as freeNode, aPod as podOn, aRequest } from '../../placement/builders.ts';
import { runningStatus } from '../vm/builders.ts';
import { aNode, aPool, aPoolVm, aStandby, bornAt, unpulled } from './builders.ts';

const settings = vmSettings({
  nodePorts: { ssh: false, screenshare: false },
  gpuPassthroughEnabled: true,
});

const nodeCpus = 64;

let pool: VmPool | undefined;
let pods: Pod[];
let node: Node | undefined;
/** By name, where they are not as that one. */
let nodesBesides: Record<string, Node | undefined>;
/** VMs that name the pool. */
let vms: Vm[];
/** What VMs that wait for a node do when they are asked. */
let retry: (inventory: Inventory) => void;
let clock: number;
let nowMs: number;
let inventory: Inventory;
/** resourceVersion of the namespace's pull Secret. */
let pullSecret: string | undefined;
/** What is known of the references of its template. */
let answer: ImageAnswer | undefined;
const create = vi.fn(async (_resource: unknown, pod: Pod): Promise<Pod> => pod);
const remove = vi.fn(async (..._arguments: unknown[]): Promise<void> => undefined);
const patch = vi.fn(async (..._arguments: unknown[]): Promise<void> => undefined);
const apply = vi.fn(async (_resource: unknown, body: VmPool): Promise<VmPool> => body);
const event = vi.fn();
const counted = vi.fn();
const madeOne = vi.fn();

function aReconciler(): PoolReconciler {
  inventory = new Inventory(settings.portRanges);
  inventory.setNode(freeNode('n1', { cpu: nodeCpus, memory: 2 ** 20 }));
  return new PoolReconciler(
    {
      client: { create, delete: remove, patch, apply },
      recorder: { event },
      caches: {
        pools: { get: () => pool },
        pods: { byIndex: () => pods, get: (name: string) => pods.find((pod) => pod.metadata.name === name) },
        vms: { byIndex: () => vms },
        nodes: { get: (name: string) => (name in nodesBesides ? nodesBesides[name] : node) },
      },
      sources: { vmConfig: () => undefined, image: () => undefined, answer: () => answer, settings },
      settings,
      shared: {
        inventory,
        standbys: { holderOf: () => undefined },
        waiting: { retry: () => retry(inventory) },
        controlKeys: () => 'key',
        kvmGroups: () => [],
        pullSecretVersion: () => pullSecret,
      },
      counted,
      made: madeOne,
      now: () => new Date(nowMs),
    } as unknown as PoolReconcilerParts,
    () => clock,
  );
}

const named = (spec: Partial<VmPool['spec']>) => {
  const { template } = aPool().spec;
  return aPool({ template: { ...template, architecture: 'amd64', cpu: 1, memory: '64Mi' }, ...spec });
};
const status = (): VmPoolStatus | undefined => apply.mock.lastCall?.[1].status;
const ready = () => status()?.conditions?.find(({ type }) => type === 'Ready');

beforeEach(() => {
  vi.clearAllMocks();
  let made = 0;
  create.mockImplementation(async (_resource, pod) => {
    made += 1;
    return {
      ...pod,
      metadata: storedMeta({ ...pod.metadata, uid: `made-${made}`, creationTimestamp: bornAt }),
    };
  });
  pool = named({ minIdle: 2 });
  pods = [];
  vms = [];
  node = aNode();
  nodesBesides = {};
  retry = () => undefined;
  answer = undefined;
  pullSecret = undefined;
  clock = 0;
  nowMs = Date.parse(bornAt) + 1_000;
});

describe('what is left of a pool that was deleted with --cascade=orphan', () => {
  const left = (name: string, metadata: ObjectMeta = {}): Pod => {
    const pod = aStandby(name);
    return { ...pod, metadata: storedMeta({ ...pod.metadata, ownerReferences: [], ...metadata }) };
  };
  const deleted = () => remove.mock.calls.map((call) => (call[1] as { name: string }).name);
  const deletionTimestamp = '2026-11-01T10:00:30Z';

  test.each<[what: string, now: () => VmPool | undefined]>([
    ['where it is gone', () => undefined],
    [
      'where it is going',
      () => ({ ...aPool(), metadata: { ...aPool().metadata, deletionTimestamp, finalizers: ['orphan'] } }),
    ],
    ['where another has its name', () => named({ minIdle: 0 })],
  ])('ends %s', async (_what, now) => {
    pool = now();
    pods = [left('a'), left('b')];
    await aReconciler().reconcile('team/ci');
    expect(deleted()).toEqual(['svc3-pool-a', 'svc3-pool-b']);
    expect(remove.mock.calls[0]?.[2]).toEqual({ uid: 'uid-a', resourceVersion: '5' });
  });

  test('is no guest that a VM has, that another pool keeps, or that ends', async () => {
    pool = undefined;
    const ofVm = left('vm', { labels: { ...aStandby('vm').metadata.labels, 'svc3.dev/vm': 'web' } });
    pods = [ofVm, aStandby('owned'), left('ending', { deletionTimestamp })];
    await aReconciler().reconcile('team/ci');
    expect(remove).not.toHaveBeenCalled();
  });

  test('stays where it has changed since, and holds up no other', async () => {
    pool = named({ minIdle: 0 });
    pods = [left('a'), left('b')];
    remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'changed'));
    await aReconciler().reconcile('team/ci');
    expect(deleted()).toEqual(['svc3-pool-a', 'svc3-pool-b']);
  });

  test.each<[whose: string, now: () => VmPool | undefined, made: number]>([
    ['another', () => undefined, 0],
    ['a guest of the pool that has its name', () => named({ minIdle: 2 }), 2],
  ])('holds up not %s where it may not be deleted', async (_whose, now, made) => {
    pool = now();
    pods = [left('a'), left('b')];
    remove.mockRejectedValueOnce(new Svc3Error('Forbidden', 'no'));
    await expect(aReconciler().reconcile('team/ci')).rejects.toThrow('no');
    expect([deleted().length, create.mock.calls.length]).toEqual([2, made]);
  });
});

describe('a pass over a pool', () => {
  test('makes what is missing, under names of which no two are the same, and says so', async () => {
    await aReconciler().reconcile('team/ci');
    const names = create.mock.calls.map((call) => call[1].metadata.name);
    expect(names).toEqual([expect.stringMatching(/^svc3-pool-ci-/), expect.stringMatching(/^svc3-pool-ci-/)]);
    expect(new Set(names).size).toBe(2);
    expect(ready()).toMatchObject({ status: 'False', reason: 'Preparing' });
  });

  test.each([
    ['arm64', undefined, 'Preparing'],
    ['amd64', undefined, 'Preparing'],
    ['amd64', 'Enabled', 'InvalidSpec'],
  ] as const)(
    'of %s guests with GPU passthrough %s is %s: on ARM no VM asks for cards',
    async (architecture, gpuPassthrough, reason) => {
      const { template } = named({}).spec;
      pool = named({
        template: { ...template, architecture, ...(gpuPassthrough === undefined ? {} : { gpuPassthrough }) },
      });
      const reconciler = aReconciler();
      inventory.setNode(freeNode('n1', { architecture, cpu: nodeCpus, memory: 2 ** 20 }));
      await reconciler.reconcile('team/ci');
      expect([ready()?.reason, create.mock.calls.length]).toEqual([
        reason,
        reason === 'Preparing' ? pool.spec.minIdle : 0,
      ]);
    },
  );

  test('quotes the kubelet that cannot pull, and makes another guest once there is a Secret for that', async () => {
    pool = named({ minIdle: 1 });
    const words = 'no basic auth credentials';
    await aReconciler().reconcile('team/ci');
    const made = (await create.mock.results[0]?.value) as Pod;
    const { status: unpulledStatus } = unpulled('1', words);
    pods = [{ ...made, status: unpulledStatus ?? {} }];
    create.mockClear();
    await aReconciler().reconcile('team/ci');
    expect(remove).not.toHaveBeenCalled();
    expect(ready()).toMatchObject({
      reason: 'Preparing',
      message: `1 being prepared, 0 to come; ${words}`,
    });
    pullSecret = '7';
    await aReconciler().reconcile('team/ci');
    expect([remove.mock.calls.length, create.mock.calls.length]).toEqual([1, 1]);
    expect(create.mock.calls[0]?.[1].metadata.annotations).toHaveProperty(
      ['svc3.dev/pull-secret-version'],
      '7',
    );
    expect(event).not.toHaveBeenCalled();
    expect(ready()).toMatchObject({ message: '1 being prepared, 0 to come' });
  });

  test('counts what it has made, and nothing that kube-apiserver refuses', async () => {
    create.mockImplementationOnce(async (_resource, pod) => pod);
    create.mockRejectedValueOnce(new Svc3Error('Forbidden', 'exceeded quota: one'));
    await aReconciler().reconcile('team/ci');
    expect(create).toHaveBeenCalledTimes(2);
    expect(madeOne.mock.calls).toEqual([['team/ci']]);
  });

  test('makes no more where the cache does not show yet what it has made', async () => {
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    await reconciler.reconcile('team/ci');
    expect(create).toHaveBeenCalledTimes(2);
  });

  test('makes a few at a time: claims have their turns at kube-apiserver', async () => {
    pool = named({ minIdle: 12 });
    const reconciler = aReconciler();
    expect(await reconciler.reconcile('team/ci')).toEqual({ requeueAfterMs: 200 });
    expect(create).toHaveBeenCalledTimes(5);
    await reconciler.reconcile('team/ci');
    expect(create).toHaveBeenCalledTimes(10);
  });

  describe('that a policy keeps from something', () => {
    afterEach(() => {
      remove.mockReset().mockResolvedValue(undefined);
    });

    const denied = new Svc3Error('Forbidden', 'a policy denies it');
    /** As many guests of a template of before. */
    const stale = (count: number) => Array.from({ length: count }, (_, i) => aStandby(String(i)));

    test('makes what is missing although a guest cannot be deleted, and fails', async () => {
      pods = stale(1);
      remove.mockRejectedValueOnce(denied);
      await expect(aReconciler().reconcile('team/ci')).rejects.toThrow('a policy denies it');
      expect(create).toHaveBeenCalledTimes(2);
      expect(ready()).toMatchObject({ reason: 'Preparing' });
    });

    test.each([
      ['twice as many as are to wait', 3, undefined, 1],
      ['twice as many as are to wait', 4, undefined, 0],
      ['there may be', 2, 3, 1],
    ])('makes no more with those that cannot be deleted than %s', async (_, count, maxSize, made) => {
      pool = named({ minIdle: 2, ...(maxSize === undefined ? {} : { maxSize }) });
      pods = stale(count);
      remove.mockRejectedValue(denied);
      await expect(aReconciler().reconcile('team/ci')).rejects.toThrow('a policy denies it');
      expect([remove.mock.calls.length, create.mock.calls.length]).toEqual([count, made]);
    });

    test('makes what is missing although one that waits cannot be given keys, and fails', async () => {
      const waits = aStandby('1', { pool: pool! });
      waits.metadata.annotations![annotations.controlKeys] = 'old';
      pods = [waits];
      patch.mockRejectedValueOnce(denied);
      await expect(aReconciler().reconcile('team/ci')).rejects.toThrow('a policy denies it');
      expect(patch).toHaveBeenCalledOnce();
      expect(create).toHaveBeenCalled();
    });
  });

  test('leaves the room to VMs that wait for a node and fit there now', async () => {
    retry = (inventory) => {
      const requests = emptyVector();
      requests[CPU] = nodeCpus * 1_000;
      const neighbour = { namespace: 'other', labels: {}, repels: [] };
      inventory.assume('a VM that waited', { node: 'n1', requests, ports: [], neighbour });
    };
    await aReconciler().reconcile('team/ci');
    expect(create).not.toHaveBeenCalled();
    expect(ready()).toMatchObject({
      reason: 'Unschedulable',
      message: expect.stringMatching(/insufficient cpu/i),
    });
  });

  test('waits for no VM that fits nowhere, whose ever it is', async () => {
    inventory = new Inventory(settings.portRanges);
    inventory.setNode(freeNode('n1'));
    const waiting = new WaitingVms(inventory, vi.fn(), { now: () => 0 });
    const request = aRequest({ tag: 'there-is-none', tagRequired: true });
    waiting.add('other', { key: 'other/vm', created: bornAt, request, told: '' });
    retry = () => waiting.retry();
    await aReconciler().reconcile('team/ci');
    expect(create).toHaveBeenCalledTimes(2);
    expect(waiting.size).toBe(1);
  });

  test('is Ready where as many wait as are to, and tells the metrics', async () => {
    pool = named({ minIdle: 0 });
    await aReconciler().reconcile('team/ci');
    expect(ready()).toMatchObject({ status: 'True', reason: 'Filled' });
    expect(counted).toHaveBeenCalledWith(
      'team/ci',
      expect.objectContaining({ idle: 0, preparing: 0, claimed: 0 }),
    );
  });

  test('gives guests that wait the keys of the installation as they are now: else nobody could claim them', async () => {
    pool = named({ minIdle: 2 });
    const [renewed, ...others] = ['1', '2', '3'].map((name) => aStandby(name, { pool: pool! }));
    for (const { metadata } of others) metadata.annotations![annotations.controlKeys] = 'old';
    others[1]!.metadata.deletionTimestamp = bornAt;
    pods = [renewed!, ...others];
    await aReconciler().reconcile('team/ci');
    expect(patch.mock.calls.map((call) => call.slice(1))).toEqual([
      [
        { name: 'svc3-pool-2', namespace: 'team' },
        {
          type: 'merge',
          body: { metadata: { uid: 'uid-2', annotations: { [annotations.controlKeys]: 'key' } } },
        },
      ],
    ]);
  });

  test.each([
    ['gone', () => undefined],
    ['being deleted', () => ({ ...aPool(), metadata: { ...aPool().metadata, deletionTimestamp: bornAt } })],
  ])('does nothing for a pool that is %s', async (_sentence, given) => {
    pool = given();
    await aReconciler().reconcile('team/ci');
    for (const call of [create, remove, apply]) expect(call).not.toHaveBeenCalled();
    expect(counted).toHaveBeenCalledWith('team/ci', undefined);
  });
});

describe('while a registry is asked again what a tag means', () => {
  const reference = 'registry.example.com/base:1';
  const digestOf = (letter: string) => `sha256:${letter.repeat(64)}`;
  const means = (letter: string): ImageAnswer => ({
    kind: 'resolved',
    image: { digest: digestOf(letter), architecture: 'amd64' },
  });
  const asking: ImageAnswer = { kind: 'asking', forMs: 0 };
  const failed = (reason: ErrorReason): ImageAnswer => ({
    kind: 'failed',
    error: new Svc3Error(reason, 'as it said'),
    retryMs: 5_000,
  });
  const tagged = (minIdle: number) =>
    named({ minIdle, template: { ...named({}).spec.template, image: reference } });
  /** Two guests as they are made where the tag means this. */
  const guestsOf = async (letter: string, isIdle: boolean): Promise<Pod[]> => {
    pods = [];
    answer = means(letter);
    create.mockClear();
    await aReconciler().reconcile('team/ci');
    const made = await Promise.all(create.mock.results.map(({ value }) => value as Promise<Pod>));
    for (const mock of [create, apply]) mock.mockClear();
    return made.map((pod) =>
      Object.assign(pod, { spec: { ...pod.spec, nodeName: 'n1' }, status: runningStatus(isIdle) }),
    );
  };
  /** A pass over the pool as the one before has left it. */
  const passWith = async (reconciler: PoolReconciler, now: ImageAnswer) => {
    answer = now;
    await reconciler.reconcile('team/ci');
    const last = status();
    if (pool !== undefined && last !== undefined) pool = { ...pool, status: last };
    return pool?.status?.conditions?.find(({ type }) => type === 'Ready');
  };

  beforeEach(() => {
    pool = tagged(2);
  });

  test.each<[sentence: string, now: ImageAnswer]>([
    ['is asked', asking],
    ['says that there is none', failed('NotFound')],
    ['does not answer', failed('Timeout')],
  ])('guests stay that boot in the place of others where it %s', async (_sentence, now) => {
    pods = [...(await guestsOf('a', true)), ...(await guestsOf('b', false))];
    const reconciler = aReconciler();
    for (const one of [means('b'), now, means('b')]) {
      await passWith(reconciler, one);
      expect(status()).toMatchObject({ idle: 2, preparing: 2 });
    }
    expect([remove.mock.calls, create.mock.calls]).toEqual([[], []]);
  });

  test('those stay too of which an operator that starts knows nothing yet', async () => {
    pods = [...(await guestsOf('a', true)), ...(await guestsOf('b', false))];
    await passWith(aReconciler(), asking);
    expect(remove).not.toHaveBeenCalled();
  });

  test('guests stay that were made without an answer, until there is one', async () => {
    const [first, second] = (await guestsOf('b', true)) as [Pod, Pod];
    pods = [first, second];
    const reconciler = aReconciler();
    await passWith(reconciler, means('b'));
    pods = [first];
    reconciler.sawPod(second, true);
    for (const now of [failed('Timeout'), asking, failed('Timeout')]) await passWith(reconciler, now);
    expect([remove.mock.calls.length, create.mock.calls.length]).toEqual([0, 1]);
    await passWith(reconciler, means('b'));
    expect([remove.mock.calls.length, create.mock.calls.length]).toEqual([1, 2]);
  });

  test('guests wait on whose ISO is a tag of a registry that does not answer', async () => {
    const { template, ...spec } = tagged(2).spec;
    const image = `registry.example.com/base@${digestOf('a')}`;
    pool = named({ ...spec, template: { ...template, image, iso: 'registry.example.com/tools:1' } });
    pods = await guestsOf('b', true);
    await passWith(aReconciler(), failed('Timeout'));
    expect([remove.mock.calls, create.mock.calls]).toEqual([[], []]);
  });

  test('a full pool says that it is', async () => {
    pods = await guestsOf('b', true);
    const reconciler = aReconciler();
    await passWith(reconciler, means('b'));
    apply.mockClear();
    expect(await passWith(reconciler, asking)).toMatchObject({ status: 'True', reason: 'Filled' });
    expect(apply).not.toHaveBeenCalled();
  });

  test('a pool says what keeps it from its next guest, also once that is due', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    const reconciler = aReconciler();
    const refused = { reason: 'PodRefused', message: 'exceeded quota' };
    expect(await passWith(reconciler, means('b'))).toMatchObject(refused);
    for (const ms of [500, 5_000]) {
      clock = ms;
      expect(await passWith(reconciler, asking)).toMatchObject(refused);
    }
    expect([create.mock.calls.length, event.mock.calls.length]).toEqual([1, 1]);
  });

  test('a pool says what is wrong with its template, until that is another', async () => {
    pods = await guestsOf('b', true);
    const reconciler = aReconciler();
    const said = await passWith(reconciler, failed('NotFound'));
    expect(said).toMatchObject({ status: 'False', reason: 'ImageNotFound' });
    expect(await passWith(reconciler, asking)).toEqual(said);
    const { metadata, ...rest } = pool as VmPool;
    pool = { ...rest, metadata: { ...metadata, generation: 2 } };
    expect(await passWith(reconciler, asking)).toMatchObject({ status: 'True', reason: 'Filled' });
  });
});

describe('a guest that is given up', () => {
  test('goes exactly as it was seen: one that a VM has taken meanwhile stays', async () => {
    pool = named({ minIdle: 0 });
    pods = [aStandby('1', { pool: named({ minIdle: 0 }) })];
    remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the object has been modified'));
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    expect(remove.mock.calls[0]?.slice(1)).toEqual([
      { name: 'svc3-pool-1', namespace: 'team' },
      { uid: 'uid-1', resourceVersion: '5' },
    ]);
    await reconciler.reconcile('team/ci');
    expect(remove).toHaveBeenCalledTimes(2);
  });

  test('goes once where the cache still shows it', async () => {
    pool = named({ minIdle: 0 });
    pods = [aStandby('1', { pool })];
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    await reconciler.reconcile('team/ci');
    expect(remove).toHaveBeenCalledOnce();
  });

  test('because it has failed is told in an Event, and the next comes after a growing time', async () => {
    pool = named({ minIdle: 1 });
    const late = aStandby('1', { pool, isIdle: false });
    nowMs = Date.parse(bornAt) + 3_600_000;
    pods = [late];
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    expect(event.mock.calls[0]?.[1]).toMatchObject({ type: 'Warning', reason: 'StandbyFailed' });
    expect(create).not.toHaveBeenCalled();
    pods = [];
    reconciler.sawPod(late, true);
    clock = 500;
    await reconciler.reconcile('team/ci');
    expect(create).not.toHaveBeenCalled();
    clock = 1_000;
    await reconciler.reconcile('team/ci');
    expect(create).toHaveBeenCalledOnce();
  });
});

describe('the node on which a guest has failed', () => {
  const nodeOfNext = () =>
    /"values":\["(n\d)"\]/.exec(JSON.stringify(create.mock.lastCall?.[1].spec.affinity))?.[1];

  /** A pool whose guest on n1 has just failed, when the next one is due. */
  async function failedOnce(): Promise<PoolReconciler> {
    pool = named({ minIdle: 1 });
    const failed = {
      ...aStandby('1', { pool }),
      status: { phase: 'Failed' as const, reason: 'NodeAffinity' },
    };
    pods = [failed];
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    pods = [];
    reconciler.sawPod(failed, true);
    clock += 1_000;
    return reconciler;
  }

  test('is taken for the next one only where no other fits', async () => {
    const reconciler = await failedOnce();
    // It is the freest of them.
    inventory.setNode(freeNode('n2', { cpu: 2, memory: 2 }));
    inventory.setPod(podOn('other', 'n2', { cpu: 0.5, memory: 0.5 }));
    await reconciler.reconcile('team/ci');
    expect(nodeOfNext()).toBe('n2');
  });

  test('is taken where there is no other', async () => {
    await (await failedOnce()).reconcile('team/ci');
    expect(nodeOfNext()).toBe('n1');
  });

  test('is as any other after two minutes', async () => {
    const reconciler = await failedOnce();
    inventory.setNode(freeNode('n2', { cpu: 2, memory: 2 }));
    inventory.setPod(podOn('other', 'n2', { cpu: 0.5, memory: 0.5 }));
    clock += 120_000;
    await reconciler.reconcile('team/ci');
    expect(nodeOfNext()).toBe('n1');
  });
});

test('a pod that kube-apiserver refuses is the pool’s condition, and is tried again later', async () => {
  create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
  const reconciler = aReconciler();
  await reconciler.reconcile('team/ci');
  expect(ready()).toMatchObject({ status: 'False', reason: 'PodRefused', message: 'exceeded quota' });
  await reconciler.reconcile('team/ci');
  expect(create).toHaveBeenCalledOnce();
});

describe('where a pod is refused, an outdated guest', () => {
  const outdatedPod = () =>
    aStandby('1', { ...(pool === undefined ? {} : { pool }), installation: { runnerImage: 'before' } });
  const quota = new Svc3Error('Forbidden', 'exceeded quota: vms, requested: pods=1');

  beforeEach(() => {
    pool = named({ minIdle: 1, template: { image: `registry.example.com/base@sha256:${'a'.repeat(64)}` } });
    pods = [outdatedPod()];
  });

  test('makes way for want of room, and the next one is made when it has gone', async () => {
    create.mockRejectedValueOnce(quota).mockRejectedValueOnce(quota);
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    expect(remove).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      { name: 'svc3-pool-1', namespace: 'team' },
      { uid: 'uid-1', resourceVersion: '5' },
    );
    // It is on its way out still.
    clock += 1_000;
    await reconciler.reconcile('team/ci');
    expect([create.mock.calls.length, remove.mock.calls.length]).toEqual([2, 1]);
    const [gone] = pods as [Pod];
    pods = [];
    reconciler.sawPod(gone, true);
    clock += 2_000;
    await reconciler.reconcile('team/ci');
    expect(create).toHaveBeenCalledTimes(3);
    expect(ready()).toMatchObject({ reason: 'Preparing' });
  });

  const another = (name: string, nodeName = 'n1') => {
    const pod = outdatedPod();
    return {
      ...pod,
      metadata: { ...pod.metadata, name: `svc3-pool-${name}`, uid: `uid-${name}` },
      spec: { ...pod.spec, nodeName },
    };
  };
  /** Each guest takes four CPUs of a node that has no other room; the next one takes as many as the template says. */
  const onFullNode = (nodeName: string, uids: readonly string[], more = 0) => {
    inventory.setNode(freeNode(nodeName, { cpu: 4 * uids.length + more, memory: 2 ** 20 }));
    for (const uid of uids) inventory.setPod(podOn(uid, nodeName, { cpu: 4 }));
  };
  const removed = () => remove.mock.calls.map((call) => (call[1] as { name: string }).name);

  test.each<[what: string, given: Node | undefined, count: number]>([
    ['waits until another has left a node that answers', aNode(), 0],
    ['does not wait for another on a node that is lost', aNode({ isLost: true }), 1],
    ['does not wait for another on a node that is gone', undefined, 1],
  ])('%s', async (_what, given, count) => {
    const leaving = another('2', 'n2');
    pods = [outdatedPod(), { ...leaving, metadata: { ...leaving.metadata, deletionTimestamp: bornAt } }];
    nodesBesides = { n2: given };
    create.mockRejectedValueOnce(quota);
    await aReconciler().reconcile('team/ci');
    expect(remove).toHaveBeenCalledTimes(count);
  });

  test.each<[sentence: string, cpu: number, gone: string[]]>([
    ['makes way for one that has room in its place', 3, ['svc3-pool-2']],
    ['makes way for one that has room once both are gone', 7, ['svc3-pool-2']],
    ['stays where the next one would not fit in the room of all of them', 9, []],
  ])('%s', async (_sentence, cpu, gone) => {
    pool = named({ minIdle: 2, template: { ...pool!.spec.template, cpu } });
    pods = [outdatedPod(), another('2')];
    const reconciler = aReconciler();
    onFullNode('n1', ['uid-1', 'uid-2']);
    await reconciler.reconcile('team/ci');
    expect(ready()).toMatchObject({ reason: 'Unschedulable' });
    expect(removed()).toEqual(gone);
    expect(inventory.node('n1')?.free[CPU]).toBe(0);
  });

  test('makes way on the node where the next one has room by it', async () => {
    pool = named({ minIdle: 2, template: { ...pool!.spec.template, cpu: 5 } });
    pods = [outdatedPod(), another('2', 'n2')];
    const reconciler = aReconciler();
    onFullNode('n1', ['uid-1'], 2);
    onFullNode('n2', ['uid-2']);
    await reconciler.reconcile('team/ci');
    expect(removed()).toEqual(['svc3-pool-1']);
  });

  test('makes way on the node that has room once two are gone', async () => {
    pool = named({ minIdle: 3, template: { ...pool!.spec.template, cpu: 7 } });
    pods = [outdatedPod(), another('2'), another('3', 'n2')];
    const reconciler = aReconciler();
    onFullNode('n1', ['uid-1', 'uid-2']);
    onFullNode('n2', ['uid-3']);
    await reconciler.reconcile('team/ci');
    expect(removed()).toEqual(['svc3-pool-2']);
  });

  describe('of a quota that is used up', () => {
    /** Every try is refused, and what was deleted has gone before the next. */
    const tryOften = async (reconciler: PoolReconciler) => {
      for (const until = clock + 300_000; clock < until; clock += 1_000) {
        const before = remove.mock.calls.length;
        await reconciler.reconcile('team/ci');
        if (remove.mock.calls.length === before) continue;
        const gone = pods.find(({ metadata }) => metadata.name === removed().at(-1)) as Pod;
        pods = pods.filter((pod) => pod !== gone);
        reconciler.sawPod(gone, true);
      }
    };

    beforeEach(() => {
      pool = named({ minIdle: 3, template: pool!.spec.template });
      pods = [outdatedPod(), another('2'), another('3')];
      create.mockRejectedValue(quota);
    });

    test('is the last that goes for a guest that cannot be made without it either, until another is to be made', async () => {
      const reconciler = aReconciler();
      await tryOften(reconciler);
      expect(removed()).toHaveLength(1);
      const { template, ...spec } = pool!.spec;
      pool = named({
        ...spec,
        template: { ...template, image: `registry.example.com/base@sha256:${'b'.repeat(64)}` },
      });
      // The template is the same: its VMConfig names another image.
      for (const { metadata } of pods) metadata.annotations![annotations.poolTemplate] = templateDigest(pool);
      await tryOften(reconciler);
      expect(removed()).toHaveLength(2);
    });

    test('is followed by the next one once it has brought a guest', async () => {
      const stored = { uid: 'made', creationTimestamp: bornAt };
      const made = async (_resource: unknown, pod: Pod) => ({
        ...pod,
        metadata: storedMeta({ ...pod.metadata, ...stored }),
      });
      create.mockRejectedValueOnce(quota).mockImplementationOnce(made);
      const reconciler = aReconciler();
      await tryOften(reconciler);
      expect(removed()).toHaveLength(2);
    });

    test('is not taken for gone where it has changed meanwhile', async () => {
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'it has changed'));
      const reconciler = aReconciler();
      await reconciler.reconcile('team/ci');
      clock += 1_000;
      await reconciler.reconcile('team/ci');
      expect(remove).toHaveBeenCalledTimes(2);
    });
  });

  test('stays where the refusal is for another reason', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'violates PodSecurity "restricted:latest"'));
    await aReconciler().reconcile('team/ci');
    expect(ready()).toMatchObject({ reason: 'PodRefused' });
    expect(remove).not.toHaveBeenCalled();
  });
});

describe('room that was assumed for pods', () => {
  const isTaken = () => (inventory.node('n1')?.used ?? []).some((amount) => amount > 0);
  const made = async () => (await create.mock.results[0]?.value) as Pod;

  beforeEach(() => {
    pool = named({ minIdle: 1 });
  });

  test.each<[sentence: string, happens: (reconciler: PoolReconciler) => Promise<unknown>]>([
    [
      'the pool goes before the cache shows them',
      async (reconciler) => {
        pool = undefined;
        await reconciler.reconcile('team/ci');
      },
    ],
    [
      'another pool has the name by then',
      async (reconciler) => {
        const { metadata, ...rest } = named({ minIdle: 0 });
        pool = { ...rest, metadata: { ...metadata, uid: 'another' } };
        await reconciler.reconcile('team/ci');
      },
    ],
    [
      'the cache shows them once their pool is gone',
      async (reconciler) => reconciler.sawPod(await made(), false),
    ],
    [
      'they went without the cache ever showing them',
      async (reconciler) => {
        nowMs += 3_600_000;
        remove.mockRejectedValueOnce(new Svc3Error('NotFound', 'it is gone'));
        await reconciler.reconcile('team/ci');
      },
    ],
  ])('is given back where %s', async (_sentence, happens) => {
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    expect(isTaken()).toBe(true);
    await happens(reconciler);
    expect(isTaken()).toBe(false);
  });
});

describe('a pool with a guest that waits backs off all the same', () => {
  test('where kube-apiserver refuses another', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    pool = named({ minIdle: 2 });
    pods = [aStandby('1', { pool })];
    const reconciler = aReconciler();
    for (clock = 0; clock < 600_000; clock += 1_000) await reconciler.reconcile('team/ci');
    // After 1, 2, 4 … 60 s.
    expect(create).toHaveBeenCalledTimes(15);
  });

  test('and goes on without a pause once another waits', async () => {
    create.mockRejectedValueOnce(new Svc3Error('Forbidden', 'exceeded quota'));
    pool = named({ minIdle: 3 });
    const first = aStandby('1', { pool });
    pods = [first];
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    await reconciler.reconcile('team/ci');
    expect(create).toHaveBeenCalledOnce();
    pods = [first, aStandby('2', { pool })];
    await reconciler.reconcile('team/ci');
    expect(create.mock.calls.length).toBeGreaterThan(1);
  });
});

describe('the status names', () => {
  const reference = (letter: string) => `registry.example.com/team/base@sha256:${letter.repeat(64)}`;
  const of = (letter: string) =>
    named({ minIdle: 1, template: { image: reference(letter), architecture: 'amd64' } });

  test('what guests were made from, those too that the cache does not show yet, as long as they wait', async () => {
    pool = of('b');
    const before = aStandby('1', { settings: { image: reference('a') } });
    // What its VMConfig said before: the template is the same.
    before.metadata.annotations![annotations.poolTemplate] = templateDigest(pool);
    pods = [before];
    const reconciler = aReconciler();
    await reconciler.reconcile('team/ci');
    expect(status()?.images).toEqual([reference('a'), reference('b')]);
    pods = [];
    reconciler.sawPod(before, true);
    await reconciler.reconcile('team/ci');
    expect(status()?.images).toEqual([reference('b')]);
  });

  test('none where none waits', async () => {
    pool = named({ minIdle: 0 });
    pods = [aStandby('1', { pool })];
    await aReconciler().reconcile('team/ci');
    expect(status()).not.toHaveProperty('images');
  });
});

describe('tools that follow kstatus', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  /** Without a digest nobody knows of a guest that it is outdated. */
  const bounded = () =>
    named({
      minIdle: 2,
      maxSize: 3,
      template: { image: 'registry.example.com/base:1', architecture: 'amd64' },
    });

  /** What they make of the pool as the last pass has left it, by the rules for kinds that they do not know. */
  function kstatus(): 'InProgress' | 'Failed' | 'Current' {
    const is = (type: string) => status()?.conditions?.find((one) => one.type === type)?.status;
    if (status()?.observedGeneration !== pool?.metadata.generation || is('Reconciling') === 'True')
      return 'InProgress';
    if (is('Stalled') === 'True') return 'Failed';
    return is('Ready') === 'True' ? 'Current' : 'InProgress';
  }

  /** A pass `ms` after the birth of the pool, whose status is that of the pass before. */
  async function passAt(reconciler: PoolReconciler, ms: number): Promise<string> {
    nowMs = Date.parse(bornAt) + ms;
    const requeue = await reconciler.reconcile('team/ci');
    const last = status();
    if (pool !== undefined && last !== undefined) pool = { ...pool, status: last };
    expect(requeue?.requeueAfterMs).toBeLessThanOrEqual(60_000);
    return `${kstatus()} ${ready()?.reason}`;
  }

  const withVms = (count: number) => {
    const podName = 'svc3-vm-web';
    vms = Array.from({ length: count }, (_each, at) => aPoolVm(`vm-${at}`, { status: { podName } }));
  };

  test('wait for no guest that maxSize leaves no room for, until a VM goes', async () => {
    pool = bounded();
    pods = [aStandby('1', { pool })];
    withVms(2);
    const reconciler = aReconciler();
    expect(await passAt(reconciler, 0)).toBe('Current AtMaxSize');
    expect(event.mock.calls.map((call) => call[1])).toMatchObject([{ type: 'Normal', reason: 'AtMaxSize' }]);
    withVms(1);
    expect(await passAt(reconciler, 1_000)).toBe('InProgress Preparing');
  });

  test('wait for none where the VMs alone are more than maxSize', async () => {
    pool = bounded();
    withVms(5);
    expect(await passAt(aReconciler(), 0)).toBe('Current AtMaxSize');
  });

  test('wait for the last guest that maxSize leaves room for', async () => {
    pool = bounded();
    pods = [aStandby('1', { pool, isIdle: false })];
    withVms(2);
    expect(await passAt(aReconciler(), 0)).toBe('InProgress Preparing');
    expect(remove).not.toHaveBeenCalled();
  });

  test('wait for the guest for which one that is outdated makes way', async () => {
    pool = named({ minIdle: 1, maxSize: 1, template: { image: `registry.example.com/base@${digest}` } });
    pods = [aStandby('1', { pool, installation: { runnerImage: 'before' } })];
    const reconciler = aReconciler();
    expect(await passAt(reconciler, 0)).toBe('InProgress Preparing');
    expect(await passAt(reconciler, 1_000)).toBe('InProgress Preparing');
  });

  test.each([
    ['ConfigNotFound', { config: 'none' }],
    ['ImageNotFound', { image: 'none' }],
  ])('are told after a minute that somebody has to act: %s', async (reason, template) => {
    pool = named({ template });
    const reconciler = aReconciler();
    expect(await passAt(reconciler, 0)).toBe(`InProgress ${reason}`);
    expect(await passAt(reconciler, 59_999)).toBe(`InProgress ${reason}`);
    expect(await passAt(reconciler, 60_000)).toBe(`Failed ${reason}`);
  });

  test('wait on where kube-apiserver refuses a pod, which is tried again', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    const reconciler = aReconciler();
    for (const ms of [0, 1_000, 600_000]) expect(await passAt(reconciler, ms)).toBe('InProgress PodRefused');
  });

  test('hear nothing of what was missing once it is there, while the next try is not due yet', async () => {
    create.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    pool = named({ minIdle: 1 });
    const { spec } = pool;
    const reconciler = aReconciler();
    await passAt(reconciler, 0);
    pool = { ...pool, spec: { ...spec, template: { config: 'none' } } };
    expect(await passAt(reconciler, 60_000)).toBe('Failed ConfigNotFound');
    pool = { ...pool, spec };
    expect(await passAt(reconciler, 60_001)).toBe('InProgress Preparing');
  });
});
