import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Node, PersistentVolumeClaim, Pod } from '../../../../src/api/core.ts';
import type { Image } from '../../../../src/api/image.ts';
import type { EffectiveSettings, Vm, VmStatus } from '../../../../src/api/vm.ts';
import { asleepDraft } from '../../../../src/controllers/vm/status/pending.ts';
import type { ClaimRoom } from '../../../../src/controllers/vm/pod/claimgrowth.ts';
import { LabelRenewal } from '../../../../src/controllers/vm/pod/labelrenewal.ts';
import { VmExpectations } from '../../../../src/controllers/vm/expectations.ts';
import { StartWaits } from '../../../../src/controllers/startwaits.ts';
import { unmetMs, VmReconciler, type VmReconcilerParts } from '../../../../src/controllers/vm/reconciler.ts';
import type { Pass } from '../../../../src/controllers/vm/pass.ts';
import { StatusWriter } from '../../../../src/controllers/vm/status/statuswriter.ts';
import type { RunnerState } from '../../../../src/api/runner.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { ClaimAnswer, RunnerObservation } from '../../../../src/controllers/vm/runner/runners.ts';
import { anImage, condition } from '../image/builders.ts';
import { aCondition, aPod, aVm, effective, runnerState, runningStatus } from './builders.ts';
import { aPoolVm, aStandby, ownedBy } from '../vmpool/builders.ts';
import { vmSettings } from '../../../support/operator.ts';
import { storedMeta } from '../../../support/storedmeta.ts';

const now = () => new Date('2026-11-01T10:01:00Z');
const held = { finalizers: ['svc3.dev/cleanup'] };

let vm: Vm | undefined;
let pod: Pod | undefined;
let images: Image[];
let saveWaitMs: number;
/** As kube-apiserver has them. */
let liveImages: Image[];
const apply = vi.fn(async (_resource: unknown, body: Vm) => body);
const patch = vi.fn();
const forget = vi.fn();
const remove = vi.fn(async () => undefined);
const shutDown = vi.fn(() => true);
const observed = vi.fn();
let claim: PersistentVolumeClaim | undefined;
let growth: ClaimRoom;
let dataGrowth: ClaimRoom;
const growData = vi.fn(async () => dataGrowth);
const grow = vi.fn(async () => growth);
const provide = vi.fn(async () => ({ kind: 'enough' }));
const deploy = vi.fn<(pass: Pass) => Promise<undefined>>(async () => undefined);

/** What kube-apiserver has of the VM. */
let live: Vm | undefined;
let liveClaim: PersistentVolumeClaim | undefined;
/** When kube-apiserver answers, by its own clock; undefined: it does not say. */
let servedAt: string | undefined;
let livePod: Pod | undefined;
let triedInVainMs: number | undefined;
let isChosenHere: boolean;
const noteGivenUp = vi.fn();
const noteAlive = vi.fn();
/** Waits are counted by it. */
let monotonicMs: number;
/** Whether a guest of the pool waits for the VM. */
let guestWaits: boolean;
const releaseGuest = vi.fn();
/** The node that another pod would have. */
let nodeForAnother: string | undefined;
const claimIt = vi.fn((): ClaimAnswer => ({ kind: 'asking', message: 'no contact' }));
const event = vi.fn();
let nodeReady: 'True' | 'Unknown';
let hasOtherNode: boolean;
const noteTurnedAway = vi.fn();

function aReconciler(runner?: Partial<RunnerObservation>): VmReconciler {
  const pods = { get: () => pod, onChange: () => undefined };
  const expectations = new VmExpectations(pods as never, () => 0);
  const get = async ({ kind }: { readonly kind: string }) => {
    if (kind === 'VM' && live !== undefined) return live;
    if (kind === 'Pod' && livePod !== undefined) return livePod;
    if (kind === 'PersistentVolumeClaim' && liveClaim !== undefined) return liveClaim;
    throw new Svc3Error('NotFound', 'no such object');
  };
  const request = async () => ({ status: 200, headers: { date: servedAt }, body: await get({ kind: 'VM' }) });
  const client = { apply, get, request, patch, delete: remove };
  const recorder = { event };
  const memory = { forget };
  return new VmReconciler({
    client,
    recorder,
    observer: {
      vms: { get: () => vm },
      nodes: {
        get: (): Node => ({
          metadata: storedMeta({ name: 'n1' }),
          status: {
            conditions: [{ type: 'Ready', status: nodeReady }],
            nodeInfo: { kubeletVersion: 'v1.36.3' } as never,
          },
        }),
      },
      claims: { get: () => claim },
      sources: { settings: vmSettings() },
      expectations,
      startWaits: new StartWaits(() => monotonicMs),
      images: () => images,
      pullSecretVersion: () => undefined,
      saveWaitMs,
      now,
    },
    podCreation: {
      ...memory,
      stopWaiting: () => undefined,
      noteAlive,
      isChosenHere: () => isChosenHere,
      noteGivenUp,
      hasOtherNode: () => hasOtherNode,
      noteTurnedAway,
      promiseGuest: () => guestWaits,
      releaseGuest,
      nodeForAnother: () => nodeForAnother,
      asleep: asleepDraft,
      deploy,
    },
    claimGrowth: { ...memory, grow, growData },
    podResize: { ...memory, dropRequest: () => undefined, provide },
    labelRenewal: new LabelRenewal({ client: client as never, monotonic: () => monotonicMs }),
    runners:
      runner === undefined
        ? undefined
        : {
            ...memory,
            observe: observed.mockReturnValue(runner),
            claim: claimIt,
            unmetMs: () => triedInVainMs,
            shutDown,
          },
    expectations,
    status: new StatusWriter({ client, recorder, expectations, now } as never),
    liveImages: async () => liveImages,
    controlKeys: () => 'new',
    now,
  } as unknown as VmReconcilerParts);
}

beforeEach(() => {
  vi.clearAllMocks();
  patch.mockReset().mockResolvedValue({});
  remove.mockReset().mockResolvedValue(undefined);
  images = [];
  liveImages = [];
  claim = undefined;
  growth = {};
  dataGrowth = {};
  saveWaitMs = 0;
  live = undefined;
  liveClaim = undefined;
  servedAt = undefined;
  livePod = undefined;
  triedInVainMs = undefined;
  isChosenHere = true;
  guestWaits = false;
  nodeForAnother = undefined;
  nodeReady = 'True';
  hasOtherNode = false;
  monotonicMs = 0;
  vm = aVm({ metadata: { ...aVm().metadata, ...held }, status: { effective } });
  pod = aPod({ nodeName: 'n1', status: runningStatus(true) });
});

/** An image that is being made of the disk. */
const aSave = () =>
  anImage(
    { vm: { name: 'web', mode: 'Save' } },
    { vmUid: 'vm-uid', conditions: [condition('Ready', 'Unknown', 'Working')] },
  );
const readyOf = () => apply.mock.calls.at(-1)?.[1].status?.conditions?.find(({ type }) => type === 'Ready');

describe('a pass', () => {
  test('writes the status although an action failed, and fails', async () => {
    patch.mockRejectedValue(new Error('the keys could not be renewed'));
    await expect(aReconciler().reconcile('team/web')).rejects.toThrow('the keys could not be renewed');
    expect(apply).toHaveBeenCalledOnce();
    expect(apply.mock.calls[0]?.[1].status?.powerState).toBe('Running');
  });

  test.each([
    ['the pod cannot be given its size', provide],
    ['the claims of its data disks cannot be grown', growData],
    ['the claim of its disk cannot be grown', grow],
  ])('asks the runner and renews the keys although %s, and fails', async (message, failing) => {
    vm = aVm({
      metadata: { ...aVm().metadata, ...held, generation: 2 },
      spec: { disks: [{ name: 'logs', size: '2Gi' }] },
      status: {
        effective: { ...effective, disk: { storage: 'Persistent' }, disks: [{ name: 'logs', size: '1Gi' }] },
      },
    });
    failing.mockRejectedValueOnce(new Error(message));
    await expect(aReconciler({ state: runnerState() }).reconcile('team/web')).rejects.toThrow(message);
    expect(observed).toHaveBeenCalledOnce();
    expect(apply.mock.calls[0]?.[1].status?.powerState).toBe('Running');
    expect(patch).toHaveBeenCalledOnce();
    expect(remove).not.toHaveBeenCalled();
  });

  describe('over a VM whose labels a policy refuses its pod', () => {
    const denied = 'team: x is not allowed here';
    const warned = `metadata.labels: pod svc3-vm-web does not get them: ${denied}`;
    /** Labels that were asked for of the pod. */
    const asked = () => patch.mock.calls.map(([, , { body }]) => body.metadata.labels);
    const warnings = () => apply.mock.lastCall?.[1].status?.warnings;

    beforeEach(() => {
      patch.mockImplementation(async (_resource, _key, { body }) => {
        if (body.metadata.labels !== undefined) throw new Svc3Error('Forbidden', denied);
      });
      vm = aVm({ ...vm, metadata: { ...vm?.metadata, labels: { team: 'x' } } });
      pod = aPod({
        nodeName: 'n1',
        status: runningStatus(true),
        metadata: { annotations: { ...aPod().metadata.annotations, 'svc3.dev/control-keys': 'new' } },
      });
    });

    test('says so, once, and looks after the VM as after any', async () => {
      const again = await aReconciler({ state: runnerState() }).reconcile('team/web');
      expect(again).toEqual({ requeueAfterMs: 60_000 });
      expect([asked(), warnings()]).toEqual([[{ team: 'x' }], [warned]]);
      expect(readyOf()).toMatchObject({ status: 'True' });
      expect(event.mock.calls.map(([, told]) => told)).toContainEqual({
        type: 'Warning',
        reason: 'SpecWarning',
        message: warned,
      });
      expect(noteAlive).toHaveBeenCalledOnce();
    });

    test('asks again in a minute, and says no more of it once it is allowed', async () => {
      apply.mockImplementation(async (_resource, body) => {
        vm = { ...(vm as Vm), status: body.status as VmStatus };
        return vm;
      });
      const reconciler = aReconciler({ state: runnerState() });
      await reconciler.reconcile('team/web');
      monotonicMs = 20_000;
      expect(await reconciler.reconcile('team/web')).toEqual({ requeueAfterMs: 40_000 });
      expect([asked().length, apply.mock.calls.length]).toEqual([1, 1]);
      monotonicMs = 60_000;
      patch.mockResolvedValue({});
      expect(await reconciler.reconcile('team/web')).toBeUndefined();
      expect([asked().length, warnings()]).toEqual([2, undefined]);
      apply.mockImplementation(async (_resource, body) => body);
    });

    test('asks at once for others', async () => {
      const reconciler = aReconciler({ state: runnerState() });
      await reconciler.reconcile('team/web');
      vm = aVm({ ...vm, metadata: { ...vm?.metadata, labels: { team: 'y' } } });
      await reconciler.reconcile('team/web');
      expect(asked()).toEqual([{ team: 'x' }, { team: 'y' }]);
    });

    test('fails where nobody has decided that, when the rest is done', async () => {
      patch.mockRejectedValue(new Error('no answer'));
      await expect(aReconciler({ state: runnerState() }).reconcile('team/web')).rejects.toThrow('no answer');
      expect(noteAlive).toHaveBeenCalledOnce();
      expect(warnings()).toBeUndefined();
    });
  });

  test('writes nothing again while the cache does not show what it wrote', async () => {
    apply.mockImplementation(async (_resource, body) => ({
      ...vm,
      ...body,
      spec: (vm as Vm).spec,
      metadata: { ...(vm as Vm).metadata, resourceVersion: '9' },
    }));
    const reconciler = aReconciler();
    await reconciler.reconcile('team/web');
    await reconciler.reconcile('team/web');
    expect(apply).toHaveBeenCalledOnce();
  });

  describe('over a VM whose finalizer somebody took away', () => {
    const placed: VmStatus = { effective };
    const asleep: VmStatus = { effective, powerState: 'Suspended', suspendedTo: 'Disk' };
    const ending = aPod({ metadata: { deletionTimestamp: '2026-11-01T10:00:30Z' } });
    const foreign = aPod({ metadata: { ownerReferences: [], labels: {} } });

    beforeEach(() => {
      patch.mockImplementation(async (_resource, _key, { body }) => {
        vm = aVm({ ...vm, metadata: { ...vm?.metadata, ...body.metadata, resourceVersion: '9' } });
        return vm;
      });
    });

    test.each<[string, VmStatus, Pod | undefined]>([
      ['that is suspended on its disk', asleep, undefined],
      ['that has lost its pod', placed, undefined],
      ['whose pod ends', placed, ending],
      ["that has somebody else's pod in its way", placed, foreign],
    ])('gives it back, once, to one %s', async (_sentence, status, its) => {
      vm = aVm({ spec: { powerState: status.powerState === undefined ? 'Running' : 'Suspended' }, status });
      pod = its;
      await aReconciler().reconcile('team/web');
      await aReconciler().reconcile('team/web');
      expect(patch).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        { name: 'web', namespace: 'team' },
        { type: 'merge', body: { metadata: { uid: 'vm-uid', resourceVersion: '4', ...held } } },
      );
    });

    test('leaves one without that was never placed: there is nothing of it', async () => {
      [vm, pod] = [aVm({ status: {} }), undefined];
      await aReconciler().reconcile('team/web');
      expect(patch).not.toHaveBeenCalled();
    });
  });

  test('asks a runner whose guest boots less often than one that is on its way', async () => {
    pod = aPod({ nodeName: 'n1', status: runningStatus(false) });
    const said = async (state: Partial<RunnerState>) =>
      (await aReconciler({ podReady: false, state: runnerState(state) }).reconcile('team/web'))
        ?.requeueAfterMs;
    expect(await said({ powerState: 'Running', guestReady: false })).toBe(15_000);
    expect(await said({ powerState: 'Stopped', reason: 'Starting' })).toBe(2_000);
  });

  test('looks again at a pod for which kube-scheduler makes room when that has taken too long: nothing else tells of it', async () => {
    const message = 'Insufficient cpu';
    const condition = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message };
    const conditions = [{ ...condition, lastTransitionTime: '2026-11-01T10:00:00Z' }];
    pod = aPod({ status: { nominatedNodeName: 'n1', conditions } });
    expect((await aReconciler().reconcile('team/web'))?.requeueAfterMs).toBe(240_000);
    expect(remove).not.toHaveBeenCalled();
  });

  describe('over a pod that its node does not prepare', () => {
    const message =
      'node n1 has not prepared volumes and network of pod svc3-vm-web in five minutes, and another node takes the VM';

    beforeEach(() => {
      const conditions = [{ type: 'PodReadyToStartContainers', status: 'False' as const }];
      pod = aPod({ nodeName: 'n1', status: { phase: 'Pending', conditions } });
    });

    test('waits five minutes by its own clock, and looks again until another node takes the VM', async () => {
      const reconciler = aReconciler();
      const pass = async (at: number) => {
        monotonicMs = at;
        return (await reconciler.reconcile('team/web'))?.requeueAfterMs;
      };
      expect(await pass(7_000)).toBe(30_000);
      hasOtherNode = true;
      expect(await pass(306_999)).toBe(1);
      hasOtherNode = false;
      expect(await pass(307_000)).toBe(60_000);
      expect(remove).not.toHaveBeenCalled();
      hasOtherNode = true;
      await pass(367_000);
      expect(remove).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        { name: 'svc3-vm-web', namespace: 'team' },
        { uid: 'pod-uid', resourceVersion: '5' },
      );
      const plan = { reason: 'PodNotPrepared', node: 'n1', message };
      expect(noteTurnedAway).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        expect.objectContaining(plan),
      );
      expect(readyOf()).toMatchObject({ status: 'False', reason: 'PodNotPrepared', message });
    });

    const preparedOf = () =>
      apply.mock.calls.at(-1)?.[1].status?.conditions?.find(({ type }) => type === 'Prepared');

    test.each([
      ['over one', false],
      ['over one that is deleted, and waits until its disk is saved', true],
    ])('%s says soon that it is not prepared', async (_vm, isDeleted) => {
      if (isDeleted) {
        const going = { ...held, deletionTimestamp: '2026-11-01T10:00:59Z' };
        vm = aVm({ metadata: { ...aVm().metadata, ...going }, status: { effective } });
        saveWaitMs = 60_000;
        liveImages = [aSave()];
      }
      const reconciler = aReconciler();
      expect(await reconciler.reconcile('team/web')).toEqual({ requeueAfterMs: 30_000 });
      monotonicMs = 30_000;
      await reconciler.reconcile('team/web');
      expect(readyOf()?.reason).toBe(isDeleted ? 'Terminating' : 'Starting');
      expect(preparedOf()).toMatchObject({ status: 'False', reason: 'PodNotPrepared' });
    });
  });

  describe('over a VM of a pool whose own pod is left to kube-scheduler', () => {
    const scheduling = { type: 'PodScheduled', status: 'False' as const, lastTransitionTime: 'now' };
    const unbound = (reason: string, nominatedNodeName = '') => {
      const { spec, ...rest } = aPod({
        status: { nominatedNodeName, conditions: [{ ...scheduling, reason, message: 'Insufficient cpu' }] },
      });
      const { affinity: _pinned, ...unpinned } = spec;
      return { ...rest, spec: unpinned };
    };

    beforeEach(() => {
      const conditions = [aCondition('Scheduled', { status: 'False', reason: 'Unschedulable' })];
      const { pool } = aPoolVm('web').spec;
      vm = aVm({
        metadata: { ...aVm().metadata, ...held },
        status: { effective, podName: 'svc3-vm-web', conditions },
      });
      vm = { ...vm, spec: { powerState: 'Running', pool } };
      pod = unbound('Unschedulable');
      guestWaits = true;
    });

    test('ends that pod, exactly as it was seen, for a guest that waits', async () => {
      await aReconciler().reconcile('team/web');
      expect(remove).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        { name: 'svc3-vm-web', namespace: 'team' },
        { uid: 'pod-uid', resourceVersion: '5' },
      );
      // By its status it is a VM that waits for a guest.
      expect([apply.mock.calls, releaseGuest.mock.calls]).toEqual([[], []]);
    });

    test('leaves the guest to others where the pod has changed meanwhile, as when it is bound', async () => {
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the pod has changed'));
      await expect(aReconciler().reconcile('team/web')).rejects.toThrow('the pod has changed');
      expect(releaseGuest).toHaveBeenCalledExactlyOnceWith('vm-uid');
    });

    test('looks again after a minute where no guest waits', async () => {
      guestWaits = false;
      expect(await aReconciler().reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(remove).not.toHaveBeenCalled();
    });

    test.each<[sentence: string, happens: () => void]>([
      ['is bound', () => (pod = aPod({ nodeName: 'n1' }))],
      ['has room made for it', () => (pod = unbound('Unschedulable', 'n1'))],
      ['is gated', () => (pod = unbound('SchedulingGated'))],
      ['is that of a VM of no pool', () => (vm = aVm({ ...vm, spec: { pool: undefined } }))],
    ])('keeps one that %s', async (_sentence, happens) => {
      happens();
      await aReconciler().reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
    });
  });

  describe('over a VM whose pod asks for what the node that takes the VM has not', () => {
    const unbound = (nominatedNodeName = '') => {
      const scheduled = { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'none' };
      const { spec, ...rest } = aPod({ status: { nominatedNodeName, conditions: [scheduled] } });
      const { affinity: _pinned, ...unpinned } = spec;
      return { ...rest, spec: unpinned };
    };

    beforeEach(() => {
      pod = unbound();
      nodeForAnother = 'n2';
    });

    test('ends that pod, exactly as it was seen, where another one would have a node, and says so', async () => {
      await aReconciler().reconcile('team/web');
      expect(remove).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        { name: 'svc3-vm-web', namespace: 'team' },
        { uid: 'pod-uid', resourceVersion: '5' },
      );
      expect(readyOf()).toMatchObject({
        reason: 'Starting',
        message:
          'node n2 takes the VM, and has not the hardware or the ports that pod svc3-vm-web asks for: it gets another one',
      });
    });

    test('looks again after a minute where it would have none', async () => {
      nodeForAnother = undefined;
      expect(await aReconciler().reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(remove).not.toHaveBeenCalled();
    });

    test.each<[sentence: string, its: () => Pod]>([
      ['is bound', () => aPod({ nodeName: 'n1' })],
      ['has room made for it', () => unbound('n1')],
    ])('keeps one that %s', async (_sentence, its) => {
      pod = its();
      await aReconciler().reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
    });
  });

  test('asks the runner of a guest that is suspended in memory now and then: nothing else tells that it is lost', async () => {
    pod = aPod({ nodeName: 'n1', status: runningStatus(false) });
    vm = aVm({
      metadata: { ...aVm().metadata, ...held },
      spec: { powerState: 'Suspended' },
      status: { effective },
    });
    const state = runnerState({ powerState: 'Suspended', reason: 'Requested' });
    expect((await aReconciler({ podReady: false, state }).reconcile('team/web'))?.requeueAfterMs).toBe(
      60_000,
    );
    expect(readyOf()).toMatchObject({ status: 'True', reason: 'Suspended' });
  });

  test('gives a guest that is being claimed the keys of the installation as they are now: its runner takes the claim by them', async () => {
    vm = aPoolVm('web', { status: { effective, podName: 'svc3-pool-1' } });
    pod = ownedBy(vm, aStandby('1'));
    await aReconciler({}).reconcile('team/web');
    expect(patch).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      { name: 'svc3-pool-1', namespace: 'team' },
      {
        type: 'merge',
        body: { metadata: { uid: 'uid-1', annotations: { 'svc3.dev/control-keys': 'new' } } },
      },
    );
  });

  describe('over a VM whose guest from a pool nobody reaches', () => {
    const claimed = (status: VmStatus = {}) =>
      aPoolVm('web', { status: { effective, podName: 'svc3-pool-1', ...status } });

    beforeEach(() => {
      vm = claimed();
      live = vm;
      pod = ownedBy(vm, aStandby('1'));
      triedInVainMs = unmetMs;
    });

    test('ends that guest, exactly as it was seen, and says so', async () => {
      await aReconciler({}).reconcile('team/web');
      expect(remove).toHaveBeenCalledExactlyOnceWith(
        expect.anything(),
        { name: 'svc3-pool-1', namespace: 'team' },
        { uid: 'uid-1', resourceVersion: '5' },
      );
      expect(noteGivenUp).toHaveBeenCalledExactlyOnceWith('uid-of-web');
      // It might be told by another try.
      expect(claimIt).not.toHaveBeenCalled();
      expect(readyOf()).toMatchObject({ status: 'False', reason: 'Starting' });
      expect(event.mock.calls.at(-1)?.[1]).toMatchObject({ type: 'Warning', reason: 'StandbyUnreachable' });
    });

    test.each<[string, () => void]>([
      ['it has not been tried for long', () => (triedInVainMs = unmetMs - 1)],
      ['somebody was met there', () => (triedInVainMs = undefined)],
      ['the operator before this one may have told it', () => (isChosenHere = false)],
      ['another operator has told it', () => (live = claimed({ runner: { podUid: 'uid-1' } }))],
      ['another VM has the name by now', () => (live = aPoolVm('other'))],
      ['the VM is gone', () => (live = undefined)],
      ['its node does not answer', () => (nodeReady = 'Unknown')],
    ])('waits on where %s', async (_sentence, happens) => {
      happens();
      expect((await aReconciler({}).reconcile('team/web'))?.requeueAfterMs).toBe(2_000);
      expect(remove).not.toHaveBeenCalled();
      expect(claimIt).toHaveBeenCalledOnce();
      expect(readyOf()).toMatchObject({ reason: 'Claiming' });
    });

    test('keeps it where the pod has changed meanwhile, and looks again', async () => {
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the pod has changed'));
      await expect(aReconciler({}).reconcile('team/web')).rejects.toThrow('the pod has changed');
      expect(noteGivenUp).not.toHaveBeenCalled();
    });
  });

  describe('over a VM past its deadline that is not deleted after all', () => {
    const annotations = { 'svc3.dev/never-ran': 'true' };
    const expired = aVm({
      metadata: { ...aVm().metadata, ...held },
      spec: { startDeadlineSeconds: 1, disk: { storage: 'Persistent' } },
      status: { conditions: [] },
    });
    const written = () => patch.mock.calls.map((call) => (call[2] as { body: Partial<Vm> }).body);
    const mark = async () => {
      live = { ...expired, metadata: { ...expired.metadata, resourceVersion: '9', annotations } };
      return live;
    };
    const taken = { metadata: { annotations } };
    const left = { metadata: { resourceVersion: '9', annotations: { 'svc3.dev/never-ran': null } } };

    beforeEach(() => {
      [vm, live, pod] = [expired, expired, undefined];
    });

    test('since somebody gave it more time, leaves its disk to it', async () => {
      patch.mockImplementationOnce(mark);
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the VM has changed'));
      await expect(aReconciler().reconcile('team/web')).rejects.toThrow('the VM has changed');
      expect(written()).toMatchObject([taken, left]);
    });

    test('since the answer to the write before was lost, leaves its disk to it', async () => {
      patch.mockImplementationOnce(async () => {
        await mark();
        throw new Svc3Error('Timeout', 'no answer');
      });
      await expect(aReconciler().reconcile('team/web')).rejects.toThrow('no answer');
      expect(written()).toMatchObject([taken, left]);
      expect(remove).not.toHaveBeenCalled();
    });

    test('says what failed first', async () => {
      patch.mockImplementationOnce(mark).mockRejectedValueOnce(new Svc3Error('Timeout', 'no answer'));
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the VM has changed'));
      await expect(aReconciler().reconcile('team/web')).rejects.toThrow('the VM has changed');
    });
  });

  describe('over a VM that is suspended on its disk', () => {
    const runner = {
      podReady: false,
      state: runnerState({ powerState: 'Suspended', suspendKind: 'Disk', reason: 'Requested' }),
    };
    const suspended = (status: VmStatus) =>
      aVm({ metadata: { ...aVm().metadata, ...held }, spec: { powerState: 'Suspended' }, status });

    beforeEach(() => {
      pod = aPod({ nodeName: 'n1', status: runningStatus(false) });
    });

    test('says so, and keeps the pod until that is written', async () => {
      vm = suspended({ effective, powerState: 'Running' });
      await aReconciler(runner).reconcile('team/web');
      expect(apply.mock.calls[0]?.[1].status).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
      expect(remove).not.toHaveBeenCalled();
    });

    test('ends the pod when it is written', async () => {
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk' });
      await aReconciler(runner).reconcile('team/web');
      expect(remove).toHaveBeenCalledExactlyOnceWith(expect.anything(), expect.anything(), {
        uid: 'pod-uid',
        resourceVersion: '5',
      });
    });

    test('keeps the pod while an image is made of the disk, and tells the rest', async () => {
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk' });
      const saving = aSave();
      images = [saving];
      const reconciler = aReconciler(runner);
      await reconciler.reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
      expect(apply.mock.calls[0]?.[1].status).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
      // The cache does not know of the next one yet.
      [images, liveImages] = [[], [saving]];
      await reconciler.reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
      liveImages = [];
      await reconciler.reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });

    test('keeps a pod that has changed meanwhile, as when its guest goes on, and looks at it again', async () => {
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk' });
      const reconciler = aReconciler(runner);
      remove.mockRejectedValueOnce(new Svc3Error('Conflict', 'the pod has changed'));
      await expect(reconciler.reconcile('team/web')).rejects.toThrow('the pod has changed');
      await reconciler.reconcile('team/web');
      expect(remove).toHaveBeenCalledTimes(2);
    });

    test('keeps the pod of a guest whose memory is in it', async () => {
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk' });
      const inMemory = { ...runner, state: runnerState({ powerState: 'Suspended', suspendKind: 'Memory' }) };
      await aReconciler(inMemory).reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
    });

    test('ends a pod in which nothing has started, and says at once that the VM is suspended', async () => {
      pod = aPod({ nodeName: 'n1', status: { phase: 'Pending' } });
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk', podName: 'svc3-vm-web' });
      const reconciler = aReconciler({ podReady: false });
      await reconciler.reconcile('team/web');
      const exactly = { uid: 'pod-uid', resourceVersion: '5' };
      expect(remove).toHaveBeenCalledExactlyOnceWith(expect.anything(), expect.anything(), exactly);
      const status = apply.mock.calls[0]?.[1].status;
      expect(status).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
      expect(status).not.toHaveProperty('podName');
      expect(status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ status: 'True' });
      // The cache does not show yet that it ends.
      await reconciler.reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });

    test('makes no pod, and names none', async () => {
      pod = undefined;
      vm = suspended({ effective, powerState: 'Suspended', suspendedTo: 'Disk', podName: 'svc3-vm-web' });
      await aReconciler(runner).reconcile('team/web');
      const status = apply.mock.calls[0]?.[1].status;
      expect(status).toMatchObject({ powerState: 'Suspended', suspendedTo: 'Disk' });
      expect(status).not.toHaveProperty('podName');
      expect(status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
        status: 'True',
        reason: 'Suspended',
      });
    });
  });

  test('over a VM that is deleted lets a guest shut down that the end of its pod would suspend', async () => {
    const settings = { ...effective, onEviction: 'Suspend' as const };
    vm = aVm({
      metadata: { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:30Z' },
      status: { effective: settings, powerState: 'Running' },
    });
    shutDown.mockReturnValueOnce(false);
    const reconciler = aReconciler({});
    await reconciler.reconcile('team/web');
    expect(remove).not.toHaveBeenCalled();
    await reconciler.reconcile('team/web');
    expect(remove).toHaveBeenCalledOnce();
  });

  describe('over a VM that is deleted while it is to be suspended on its disk', () => {
    const deletionTimestamp = '2026-11-01T10:00:30Z';
    const to = (suspendTo: 'Memory' | 'Disk', status: VmStatus = {}) =>
      aVm({
        metadata: { ...aVm().metadata, ...held, deletionTimestamp },
        spec: { powerState: 'Suspended', suspendTo },
        status: { effective, powerState: 'Running', ...status },
      });

    test('has the guest shut down before its pod ends', async () => {
      vm = to('Disk');
      shutDown.mockReturnValueOnce(false);
      const reconciler = aReconciler({});
      await reconciler.reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
      await reconciler.reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });

    test.each([
      ['whose memory is there, as its status says', to('Disk', { suspendedTo: 'Disk' })],
      ['that is suspended in its pod', to('Memory')],
      ['that is to run by now', aVm({ ...to('Disk'), spec: { ...to('Disk').spec, powerState: 'Running' } })],
    ])('ends at once the pod of one %s', async (_what, one) => {
      vm = one;
      await aReconciler({}).reconcile('team/web');
      expect(shutDown).not.toHaveBeenCalled();
      expect(remove).toHaveBeenCalledOnce();
    });
  });

  test('over a VM that is deleted has the guest shut down also where Kubernetes ends its pod', async () => {
    const deletionTimestamp = '2026-11-01T10:00:30Z';
    vm = aVm({
      metadata: { ...aVm().metadata, ...held, deletionTimestamp },
      status: { effective: { ...effective, onEviction: 'Suspend' }, powerState: 'Running' },
    });
    pod = aPod({ metadata: { deletionTimestamp } });
    await aReconciler({}).reconcile('team/web');
    expect(shutDown).toHaveBeenCalledExactlyOnceWith('team/web', vm, pod);
    expect(remove).not.toHaveBeenCalled();
  });

  test('over a VM that is deleted leaves the guest as it is while kube-apiserver knows who wants its disk', async () => {
    vm = aVm({
      metadata: { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:59Z' },
      status: { effective: { ...effective, onEviction: 'Suspend' }, powerState: 'Running' },
    });
    saveWaitMs = 60_000;
    liveImages = [aSave()];
    await aReconciler({}).reconcile('team/web');
    expect([shutDown.mock.calls, remove.mock.calls]).toEqual([[], []]);
    expect(readyOf()).toMatchObject({ reason: 'Terminating' });
  });

  test('over a VM that is deleted waits for no disk that went with the pod before, where nothing starts in this one', async () => {
    vm = aVm({
      metadata: { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:59Z' },
      status: { effective, powerState: 'Stopped' },
    });
    pod = aPod({ nodeName: 'n1', status: { phase: 'Pending', podIP: '10.0.0.2' } });
    saveWaitMs = 60_000;
    const { status, ...save } = aSave();
    images = [{ ...save, status: { ...status, vmPodUid: 'pod-uid' } }];
    const reconciler = aReconciler({});
    await reconciler.reconcile('team/web');
    expect([remove.mock.calls, readyOf()?.reason]).toEqual([[], 'Terminating']);
    images = [{ ...save, status: { ...status, vmPodUid: 'pod-before' } }];
    liveImages = images;
    await reconciler.reconcile('team/web');
    expect(remove).toHaveBeenCalledOnce();
  });

  test('over a VM that is deleted does not let go of it while kube-apiserver has its pod, whosever the cache shows under that name', async () => {
    const deletionTimestamp = '2026-11-01T10:00:30Z';
    vm = aVm({ metadata: { ...aVm().metadata, ...held, deletionTimestamp }, status: { effective } });
    const [owner] = aPod().metadata.ownerReferences ?? [];
    const ownerReferences = [{ ...owner!, uid: 'old-uid' }];
    pod = aPod({ metadata: { uid: 'old-pod', deletionTimestamp, ownerReferences } });
    livePod = aPod();
    expect(await aReconciler().reconcile('team/web')).toEqual({ requeueAfterMs: 1_000 });
    expect(patch).not.toHaveBeenCalled();
    livePod = undefined;
    expect(await aReconciler().reconcile('team/web')).toBeUndefined();
    expect(patch).toHaveBeenCalledOnce();
  });

  describe('over a VM that is deleted, by a clock that says that the time to save its disk is over', () => {
    beforeEach(() => {
      vm = aVm({
        metadata: { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:10Z' },
        status: { effective, powerState: 'Running' },
      });
      live = vm;
      saveWaitMs = 30_000;
      [images, liveImages] = [[aSave()], [aSave()]];
    });

    test('leaves the guest as it is until kube-apiserver’s clock says so too', async () => {
      servedAt = 'Sun, 01 Nov 2026 10:00:12 GMT';
      expect(await aReconciler({}).reconcile('team/web')).toEqual({ requeueAfterMs: 28_000 });
      expect([shutDown.mock.calls, remove.mock.calls]).toEqual([[], []]);
      expect(readyOf()).toMatchObject({ reason: 'Terminating' });
    });

    test.each([
      ['says so', () => (servedAt = 'Sun, 01 Nov 2026 10:00:40 GMT')],
      ['is not told', () => undefined],
    ])('ends it where that %s', async (_what, given) => {
      given();
      await aReconciler({}).reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });

    test('ends it at once where the save is done by now', async () => {
      servedAt = 'Sun, 01 Nov 2026 10:00:12 GMT';
      liveImages = [];
      await aReconciler({}).reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });
  });

  describe('over a VM that is to be reverted', () => {
    beforeEach(() => {
      saveWaitMs = 60_000;
      vm = aVm({
        metadata: { ...aVm().metadata, ...held, generation: 2 },
        spec: { revertRequest: 'b' },
        status: { effective, powerState: 'Running', revertRequest: 'a' },
      });
    });

    test('has its runner told of that once nobody waits for the disk', async () => {
      liveImages = [aSave()];
      const reconciler = aReconciler({ state: runnerState({ revertRequest: 'a' }) });
      expect(await reconciler.reconcile('team/web')).toEqual({ requeueAfterMs: 2_000 });
      expect(observed.mock.lastCall?.[3]).toMatchObject({ revertHold: { needsGuest: false } });
      expect(readyOf()).toMatchObject({
        status: 'False',
        reason: 'Reverting',
        message: 'the revert waits until image disk is saved, at most until 2026-11-01T10:02:00Z',
      });
      liveImages = [];
      await reconciler.reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ revertHold: undefined });
    });

    test('has its next pod made with what the cache knows of that', async () => {
      pod = undefined;
      const seen = async () => {
        await aReconciler().reconcile('team/web');
        return deploy.mock.lastCall?.[0].observed.isSavedFirst;
      };
      expect(await seen()).toBe(false);
      images = [aSave()];
      expect(await seen()).toBe(true);
      vm = aVm({ ...vm, status: { effective, revertRequest: 'b' } });
      expect(await seen()).toBe(false);
    });

    test('says so too where the guest has crashed, and does not give up', async () => {
      liveImages = [aSave()];
      pod = aPod({ nodeName: 'n1', status: runningStatus(false) });
      const state = runnerState({ powerState: 'Failed', restarts: 6, revertRequest: 'a' });
      await aReconciler({ state, podReady: false }).reconcile('team/web');
      expect(readyOf()).toMatchObject({ reason: 'Reverting' });
      expect(apply.mock.calls[0]?.[1].status?.conditions).not.toContainEqual(
        expect.objectContaining({ type: 'Stalled', status: 'True' }),
      );
    });
  });

  describe('over a VM whose disk is to be larger', () => {
    const persistent = { ...effective, disk: { storage: 'Persistent' as const, size: '20Gi' } };
    const ofSize = (storage: string): PersistentVolumeClaim => ({
      metadata: storedMeta({ name: 'svc3-vm-web', annotations: { 'svc3.dev/vm-uid': 'vm-uid' } }),
      spec: { resources: { requests: { storage } } },
    });

    beforeEach(() => {
      vm = aVm({
        metadata: { ...aVm().metadata, ...held },
        spec: { disk: { size: '40Gi' } },
        status: { effective: persistent },
      });
    });

    test('has the claim grow before the disk', async () => {
      claim = ofSize('22Gi');
      await aReconciler({}).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isDiskHeld: true });
      claim = ofSize('44Gi');
      await aReconciler({}).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isDiskHeld: false });
    });

    test('has the volume grow before the disk, not only what is asked for of it', async () => {
      const ofVolume = (storage: string) => ({
        ...ofSize('44Gi'),
        status: { phase: 'Bound', capacity: { storage } },
      });
      claim = ofVolume('22Gi');
      await aReconciler({}).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isDiskHeld: true });
      claim = ofVolume('44Gi');
      await aReconciler({}).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isDiskHeld: false });
    });

    test('says what keeps the volume, and looks again', async () => {
      growth = { delay: 'the volume has 22Gi', againMs: 60_000 };
      expect(await aReconciler().reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(apply.mock.calls[0]?.[1].status).toMatchObject({ diskGrowth: 'the volume has 22Gi' });
    });

    test('says why it does not, and asks again', async () => {
      claim = ofSize('22Gi');
      growth = { refusal: 'exceeded quota', againMs: 60_000 };
      expect(await aReconciler().reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(apply.mock.calls[0]?.[1].status).toMatchObject({ diskGrowth: 'exceeded quota' });
    });
  });

  describe('over a VM that is started in another pod', () => {
    const suspends = {
      ...effective,
      disk: { storage: 'Persistent' as const },
      onEviction: 'Suspend',
    } as const;
    const asked = (settings: EffectiveSettings, status: VmStatus = {}) =>
      aVm({
        metadata: { ...aVm().metadata, ...held, generation: 2 },
        spec: { cpu: 2, restartRequest: 'a' },
        status: { effective: settings, powerState: 'Running', ...status },
      });

    test.each([
      ['is shut down before', () => [], true],
      ['runs on while an image is made of its disk', () => [aSave()], false],
    ])('the guest that the end of its pod would suspend %s', async (_, saves, isStoppedFirst) => {
      vm = asked(suspends);
      liveImages = saves();
      await aReconciler({ state: runnerState() }).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isHeld: true, isStoppedFirst });
    });

    test('a guest that has crashed waits for the image that is made of its disk, and is looked at again', async () => {
      vm = asked({ ...effective, disk: { storage: 'Persistent' } });
      pod = aPod({ nodeName: 'n1', status: runningStatus(false) });
      liveImages = [aSave()];
      const state = runnerState({ powerState: 'Failed', restarts: 6 });
      const result = await aReconciler({ state, podReady: false }).reconcile('team/web');
      expect([result, remove.mock.calls]).toEqual([{ requeueAfterMs: 2_000 }, []]);
      expect(apply.mock.calls[0]?.[1].status?.conditions).not.toContainEqual(
        expect.objectContaining({ type: 'Stalled', status: 'True' }),
      );
    });
  });

  describe('over a VM whose data disk is to be larger', () => {
    const disk = { storage: 'Persistent' as const };
    const disks = (size: string) => [{ name: 'logs', size }];
    const asked = (settings: Partial<EffectiveSettings> = {}) =>
      aVm({
        metadata: { ...aVm().metadata, ...held, generation: 2 },
        spec: { disks: disks('2Gi'), restartRequest: 'a' },
        status: {
          effective: { ...effective, disk, disks: disks('1Gi'), ...settings },
          powerState: 'Running',
        },
      });
    const running = { state: runnerState() };
    const conditionOf = (type: string) =>
      apply.mock.calls.at(-1)?.[1].status?.conditions?.find((one) => one.type === type);
    const refusal = 'exceeded quota; the way back';

    test('starts it in another pod once the claim has grown', async () => {
      vm = asked();
      await aReconciler(running).reconcile('team/web');
      expect(growData.mock.calls[0]?.slice(0, 1)).toEqual([vm]);
      expect(remove).toHaveBeenCalledOnce();
    });

    test('lets the guest run on where the claim must not grow, and says so', async () => {
      vm = asked();
      dataGrowth = { refusal, againMs: 60_000 };
      await aReconciler(running).reconcile('team/web');
      expect(remove).not.toHaveBeenCalled();
      expect(readyOf()).toMatchObject({ reason: 'Restarting', message: refusal });
      expect(conditionOf('RestartRequired')).toMatchObject({
        status: 'True',
        reason: 'ResizeRefused',
        message: `spec.disks apply when the guest is started next; not before the claims of its data disks may grow: ${refusal}`,
      });
    });

    test('says so before anybody restarts it', async () => {
      vm = asked();
      vm = { ...vm, spec: { ...vm.spec, restartRequest: undefined } };
      dataGrowth = { refusal, againMs: 60_000 };
      expect(await aReconciler(running).reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(readyOf()).toMatchObject({ status: 'True' });
      expect(conditionOf('RestartRequired')).toMatchObject({ reason: 'ResizeRefused' });
    });

    test('does not shut a guest down for it that the end of its pod would suspend', async () => {
      vm = asked({ onEviction: 'Suspend' });
      dataGrowth = { refusal, againMs: 60_000 };
      await aReconciler(running).reconcile('team/web');
      expect(observed.mock.lastCall?.[3]).toMatchObject({ isHeld: true, isStoppedFirst: false });
      expect(readyOf()).toMatchObject({ reason: 'Restarting', message: refusal });
    });

    test('waits for its volume, but no longer than volumes mostly take', async () => {
      vm = asked();
      dataGrowth = { againMs: 2_000 };
      expect(await aReconciler(running).reconcile('team/web')).toEqual({ requeueAfterMs: 2_000 });
      expect(remove).not.toHaveBeenCalled();
      expect(readyOf()).toMatchObject({
        message: 'the volumes of its data disks grow: the guest is started after that',
      });
      expect(conditionOf('RestartRequired')).toMatchObject({ reason: 'SpecChanged' });
      // One that grows only while no pod has it would be waited for in vain.
      dataGrowth = { delay: 'the volume has 1Gi', againMs: 60_000 };
      await aReconciler(running).reconcile('team/web');
      expect(remove).toHaveBeenCalledOnce();
    });

    test('asks for nothing where the disks are as they were', async () => {
      vm = aVm({ ...asked(), spec: { cpu: 2 } });
      await aReconciler(running).reconcile('team/web');
      expect(growData).not.toHaveBeenCalled();
    });
  });

  test('lets go of a VM once, however long the cache shows it', async () => {
    pod = undefined;
    vm = aVm({ metadata: { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:30Z' } });
    const reconciler = aReconciler();
    for (let pass = 0; pass < 3; pass += 1) await reconciler.reconcile('team/web');
    expect(patch).toHaveBeenCalledOnce();
  });

  test('over a VM whose claim may not be deleted says so, tells it once, and looks again', async () => {
    const disk = { storage: 'Persistent' as const, whenDeleted: 'Delete' as const };
    const going = { ...held, deletionTimestamp: '2026-11-01T10:00:30Z' };
    pod = undefined;
    vm = aVm({
      metadata: { ...aVm().metadata, ...going },
      spec: { disk },
      status: { effective: { ...effective, disk }, powerState: 'Stopped' },
    });
    liveClaim = {
      metadata: storedMeta({ name: 'svc3-vm-web', annotations: { 'svc3.dev/vm-uid': 'vm-uid' } }),
    };
    const message =
      'claim svc3-vm-web may not be deleted: a policy denies it; allow it, or set disk.whenDeleted to Retain';
    remove.mockRejectedValue(new Svc3Error('Forbidden', 'a policy denies it'));
    const reconciler = aReconciler();
    expect(await reconciler.reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
    expect(readyOf()).toMatchObject({ status: 'False', reason: 'Terminating', message });
    const warned = () => event.mock.calls.filter(([, { reason }]) => reason === 'DiskNotDeleted');
    expect(warned()).toEqual([[expect.anything(), { type: 'Warning', reason: 'DiskNotDeleted', message }]]);
    vm = { ...vm, status: { ...vm.status, ...apply.mock.calls[0]?.[1].status } };
    await reconciler.reconcile('team/web');
    expect(warned()).toHaveLength(1);
    remove.mockResolvedValue(undefined);
    expect(await reconciler.reconcile('team/web')).toBeUndefined();
    expect(patch).toHaveBeenCalledOnce();
  });

  test('over a VM whose pod may not be deleted says so, tells it once, and leaves the rest of its status', async () => {
    const metadata = { ...aVm().metadata, ...held, deletionTimestamp: '2026-11-01T10:00:30Z' };
    let going = aVm({ metadata, status: { effective, powerState: 'Running', podName: 'svc3-vm-web' } });
    const message = 'pod svc3-vm-web may not be deleted: a policy denies it; allow it';
    remove.mockRejectedValue(new Svc3Error('Forbidden', 'a policy denies it'));
    const reconciler = aReconciler({});
    for (let pass = 0; pass < 2; pass += 1) {
      vm = going;
      expect(await reconciler.reconcile('team/web')).toEqual({ requeueAfterMs: 60_000 });
      expect(readyOf()).toMatchObject({ status: 'False', reason: 'Terminating', message });
      going = aVm({ metadata, status: apply.mock.lastCall?.[1].status ?? {} });
    }
    expect(going.status).toMatchObject({ powerState: 'Running', podName: 'svc3-vm-web' });
    expect(event.mock.calls.map(([, told]) => told as unknown)).toEqual([
      { type: 'Warning', reason: 'PodNotDeleted', message },
    ]);
  });

  test('over a VM that is gone lets every part forget it, and one of the same name is another', async () => {
    const reconciler = aReconciler();
    await reconciler.reconcile('team/web');
    expect(forget).not.toHaveBeenCalled();
    vm = aVm({ metadata: { ...aVm().metadata, ...held, uid: 'another' } });
    pod = undefined;
    await reconciler.reconcile('team/web').catch(() => undefined);
    expect(forget.mock.calls).toEqual([['vm-uid'], ['vm-uid'], ['vm-uid']]);
    vm = undefined;
    await reconciler.reconcile('team/web');
    expect(forget.mock.calls.slice(3)).toEqual([['another'], ['another'], ['another']]);
  });
});
