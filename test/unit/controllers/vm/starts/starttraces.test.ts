import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Pod, PodStatus } from '../../../../../src/api/core.ts';
import { annotations } from '../../../../../src/api/meta.ts';
import type { RunnerState } from '../../../../../src/api/runner.ts';
import type { Vm, VmStatus } from '../../../../../src/api/vm.ts';
import type { Pass } from '../../../../../src/controllers/vm/pass.ts';
import { answerMs, StartTraces } from '../../../../../src/controllers/vm/starts/starttraces.ts';
import { condition, type StatusDraft } from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { parseTraceparent } from '../../../../../src/api/traceparent.ts';
import { traceIdOf } from '../../../../../src/tracing/ids.ts';
import type { FinishedSpan, Tracer } from '../../../../../src/tracing/span.ts';
import { aCondition, aPod, aVm, runnerState, runningStatus } from '../builders.ts';

const given = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
/** Of the VM and its pod. */
const created = Date.parse('2026-11-01T10:00:00Z');
/** When the runner's container ran, as `runningStatus` says. */
const ran = Date.parse('2026-11-01T10:00:01Z');

let spans: FinishedSpan[];
let now: number;

beforeEach(() => {
  spans = [];
  now = created + 200;
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

/** An operator that has just begun to lead. */
function aLeader(isSampled: Tracer['isSampled'] = () => true): StartTraces {
  const record = (span: FinishedSpan) => void spans.push(span);
  return new StartTraces({ isSampled, record, close: () => Promise.resolve() }, () => now);
}

const tracedVm = (more: { status?: VmStatus } = {}): Vm => {
  const { metadata } = aVm();
  return aVm({ metadata: { ...metadata, annotations: { [annotations.traceparent]: given } }, ...more });
};

/** The pod that the leader makes for the VM. */
function podFor(leader: StartTraces, vm: Vm, more: { status?: PodStatus; uid?: string } = {}): Pod {
  const traceparent = leader.traceparent(vm);
  const { status, uid = 'pod-uid' } = more;
  return aPod({
    nodeName: 'n1',
    metadata: {
      uid,
      creationTimestamp: '2026-11-01T10:00:00Z',
      annotations: traceparent === undefined ? {} : { [annotations.traceparent]: traceparent },
    },
    ...(status === undefined ? {} : { status }),
  });
}

const readyPod = (): PodStatus => ({
  ...runningStatus(true),
  conditions: [
    { type: 'PodScheduled', status: 'True', lastTransitionTime: '2026-11-01T10:00:00Z' },
    { type: 'Ready', status: 'True' },
  ],
});

const waits: StatusDraft = {
  fields: {},
  conditions: { ready: condition('False', 'Pending', '') },
  reconciling: true,
};
const runs: StatusDraft = {
  fields: { powerState: 'Running' },
  conditions: { ready: condition('True', 'Running', '') },
  reconciling: false,
};
const stalled: StatusDraft = {
  fields: {},
  conditions: {
    ready: condition('False', 'Crashed', ''),
    stalled: condition('True', 'DiskFileMissing', 'registry.example.com says hunter2'),
  },
  reconciling: false,
};

function pass(vm: Vm, pod: Pod | undefined, status: StatusDraft, state?: RunnerState): Pass {
  return {
    key: 'team/web',
    observed: { vm, pod } as Pass['observed'],
    status,
    runner: { state } as Pass['runner'],
  };
}

/** What a runner says whose guest answered 5.5 s after its start. */
const answering = (more: Partial<RunnerState> = {}): RunnerState =>
  runnerState({
    firstStart: { startedAtMs: ran + 300, diskMs: 500, machineMs: 1_000, guestMs: 4_000 },
    ...more,
  });

const named = (name: string): FinishedSpan => {
  const found = spans.find((span) => span.name === name);
  if (found === undefined) throw new Error(`no ${name} among ${spans.map((span) => span.name).join(', ')}`);
  return found;
};

/** The whole life of a start, by one leader. */
function start(leader: StartTraces, vm: Vm, state = answering()): Pod {
  leader.observe(pass(vm, undefined, waits));
  now += 100;
  const pod = podFor(leader, vm);
  leader.made(vm, pod, now - 20);
  now += 150;
  leader.observe(pass(vm, { ...pod, status: { ...readyPod(), containerStatuses: [] } }, waits));
  now = ran + 6_000;
  leader.observe(pass(vm, { ...pod, status: readyPod() }, runs, state));
  return pod;
}

describe('a start', () => {
  test('is one trace, in the order of what happened, below whoever made the VM', () => {
    start(aLeader(), tracedVm());
    expect(spans.map(({ name }) => name)).toEqual([
      'start VM',
      'placement',
      'pod creation',
      'pod scheduled',
      'image pull',
      'runner start',
      'disk',
      'boot',
      'guest reachable',
    ]);
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(
      new Set(['4bf92f3577b34da6a3ce929d0e0e4736']),
    );
    expect(named('start VM').parentSpanId).toBe('00f067aa0ba902b7');
    for (const name of ['placement', 'pod creation', 'pod scheduled', 'image pull', 'runner start'])
      expect(named(name).parentSpanId).toBe(named('start VM').spanId);
    for (const name of ['disk', 'boot', 'guest reachable'])
      expect(named(name)).toMatchObject({
        parentSpanId: named('runner start').spanId,
        service: 'svc3-runner',
      });
    expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length);
    const times = (name: string) => [named(name).startMs - created, named(name).endMs - created];
    expect(times('start VM')).toEqual([200, 7_000]);
    expect(times('placement')).toEqual([200, 280]);
    expect(times('pod creation')).toEqual([280, 300]);
    expect(times('pod scheduled')).toEqual([300, 450]);
    expect(times('image pull')).toEqual([450, 1_000]);
    expect(times('runner start')).toEqual([1_300, 6_800]);
    expect(times('guest reachable')).toEqual([2_800, 6_800]);
  });

  test('says where it was, what kind it was and how it ended, and nothing else', () => {
    start(aLeader(), tracedVm());
    expect(named('start VM').attributes).toEqual({
      'k8s.namespace.name': 'team',
      'svc3.vm.name': 'web',
      'svc3.vm.uid': 'vm-uid',
      'k8s.pod.name': 'svc3-vm-web',
      'k8s.pod.uid': 'pod-uid',
      'k8s.node.name': 'n1',
      'svc3.start.kind': 'cold',
      'svc3.outcome': 'Running',
    });
  });

  test('from memory is a warm one, with the reason', () => {
    const warmStart = { fromMemory: true, reason: 'StartedFromMemory', message: 'from memory' };
    start(aLeader(), tracedVm(), answering({ warmStart }));
    expect(named('start VM').attributes['svc3.start.kind']).toBe('warm');
    expect(named('runner start').attributes).toMatchObject({
      'svc3.start.kind': 'warm',
      'svc3.start.reason': 'StartedFromMemory',
    });
  });

  test('of a VM that names no trace has the same one with every leader, and begins it', () => {
    start(aLeader(), aVm());
    const [first] = spans;
    expect(first?.parentSpanId).toBeUndefined();
    spans = [];
    now = created + 200;
    start(aLeader(), aVm());
    expect(spans[0]).toMatchObject({ traceId: first?.traceId, spanId: first?.spanId });
  });

  test.each([
    ['a VM that says that its trace is not recorded', () => true, given.replace(/01$/, '00')],
    ['a VM of the traces that are left out', () => false, undefined],
  ])('is not told of %s, and its pod names no trace', (_, isSampled, traceparent) => {
    const vm = aVm({
      metadata: {
        ...aVm().metadata,
        ...(traceparent === undefined ? {} : { annotations: { [annotations.traceparent]: traceparent } }),
      },
    });
    const pod = start(aLeader(isSampled), vm);
    expect(pod.metadata.annotations).not.toHaveProperty([annotations.traceparent]);
    expect(spans).toEqual([]);
  });

  test('is told once, however often the VM is looked at, and not when its guest was out of reach for a while', () => {
    const leader = aLeader();
    const vm = tracedVm();
    const pod = start(leader, vm);
    const told = spans.length;
    for (const draft of [runs, waits, runs]) leader.observe(pass(vm, pod, draft, answering()));
    leader.flush();
    expect(spans).toHaveLength(told);
  });

  test('waits for what the runner says of it, and is told without where it says nothing', () => {
    const leader = aLeader();
    start(leader, tracedVm(), runnerState());
    expect(spans).toEqual([]);
    vi.advanceTimersByTime(answerMs);
    expect(spans.map(({ name }) => name)).toContain('image pull');
    expect(spans.map(({ name }) => name)).not.toContain('runner start');
    expect(named('start VM').endMs).toBe(ran + 6_000);
  });

  test('that is ready is told when the process ends', () => {
    const leader = aLeader();
    start(leader, tracedVm(), runnerState());
    leader.flush();
    expect(named('start VM').attributes['svc3.outcome']).toBe('Running');
  });
});

describe('another leader', () => {
  const status: VmStatus = {
    podName: 'svc3-vm-web',
    runner: { podUid: 'pod-uid', address: '10.0.0.1' },
    conditions: [aCondition('Ready', { status: 'False', reason: 'Pending' })],
  };

  test('tells the start that it finds half done, with the same IDs', () => {
    const vm = tracedVm();
    start(aLeader(), vm);
    const before = new Map(spans.map(({ name, spanId }) => [name, spanId]));
    spans = [];
    const other = aLeader();
    const pod = podFor(other, vm, { status: readyPod() });
    other.observe(pass({ ...vm, status: { ...status, conditions: [] } }, pod, runs, answering()));
    expect(spans.map(({ name }) => name)).toContain('guest reachable');
    for (const { name, spanId } of spans) expect(spanId).toBe(before.get(name));
    expect(named('start VM').startMs).toBe(created);
  });

  test('tells no start that was told: the VM is ready, or its guest was only out of reach', () => {
    const other = aLeader();
    const vm = tracedVm();
    const pod = podFor(other, vm, { status: readyPod() });
    const ready = { ...status, conditions: [aCondition('Ready')], powerState: 'Running' as const };
    other.observe(pass({ ...vm, status: ready }, pod, runs, answering()));
    const later = aCondition('Ready', { status: 'False', lastTransitionTime: '2026-11-01T11:00:00Z' });
    const third = aLeader();
    const unready = { ...ready, conditions: [later] };
    third.observe(pass({ ...vm, status: unready }, pod, waits, answering()));
    third.observe(pass({ ...vm, status: unready }, pod, runs, answering()));
    vi.advanceTimersByTime(answerMs);
    expect(spans).toEqual([]);
  });

  test('tells no failure again that the VM has in its status, but another one, and the start that works out', () => {
    const other = aLeader();
    const conditions = [aCondition('Stalled', { reason: 'DiskFileMissing' })];
    const vm = tracedVm({ status: { ...status, conditions } });
    const pod = podFor(other, vm, { status: readyPod() });
    for (let i = 0; i < 2; i += 1) other.observe(pass(vm, pod, stalled));
    expect(spans).toEqual([]);
    const denied = { ...stalled.conditions, stalled: condition('True', 'ImagePullDenied', '') };
    other.observe(pass(vm, pod, { ...stalled, conditions: denied }));
    expect(named('start VM').error).toBe('ImagePullDenied');
    spans = [];
    other.observe(pass(vm, pod, runs, answering()));
    expect(named('start VM').error).toBeUndefined();
  });

  test('tells that the next pod of a VM fails as the one before', () => {
    const other = aLeader();
    const conditions = [aCondition('Stalled', { reason: 'DiskFileMissing' })];
    const vm = tracedVm({ status: { ...status, conditions } });
    other.observe(pass(vm, podFor(other, vm, { status: readyPod() }), waits));
    const next = podFor(other, vm, { uid: 'another', status: readyPod() });
    other.made(vm, next, now);
    other.observe(pass(vm, next, stalled));
    expect(named('start VM')).toMatchObject({
      error: 'DiskFileMissing',
      attributes: { 'k8s.pod.uid': 'another' },
    });
  });

  test('tells nothing of a VM whose deletion it only sees', () => {
    const other = aLeader();
    const running = tracedVm({ status: { ...status, powerState: 'Running' } });
    other.observe(pass(running, podFor(other, tracedVm()), waits));
    other.forget('vm-uid');
    expect(spans).toEqual([]);
  });
});

describe('a later start', () => {
  test('in another pod has a trace of its own, which names the first', () => {
    const leader = aLeader();
    const vm = tracedVm();
    start(leader, vm);
    const first = named('start VM');
    spans = [];
    const before = tracedVm({ status: { powerState: 'Running' } });
    leader.observe(pass(before, undefined, waits));
    const pod = podFor(leader, before, { uid: 'another' });
    leader.made(before, pod, now);
    leader.observe(pass(before, { ...pod, status: readyPod() }, runs, answering()));
    const again = named('start VM');
    expect(again.traceId).not.toBe(first.traceId);
    expect(parseTraceparent(pod.metadata.annotations?.[annotations.traceparent])?.traceId).toBe(
      again.traceId,
    );
    expect(again.parentSpanId).toBeUndefined();
    expect(again.links).toEqual([{ traceId: first.traceId, spanId: first.spanId }]);
  });

  test('begins when the VM waited for its pod, also where the first is not recorded', () => {
    const leader = aLeader((traceId) => traceId !== traceIdOf('vm-uid'));
    const before = aVm({ status: { powerState: 'Running' } });
    const waitedMs = created + 3_600_000;
    now = waitedMs;
    leader.observe(pass(before, undefined, waits));
    const pod = podFor(leader, before, { uid: 'another' });
    now += 20;
    leader.made(before, pod, now);
    leader.observe(pass(before, { ...pod, status: readyPod() }, runs, answering()));
    expect(named('start VM')).toMatchObject({ startMs: waitedMs, endMs: waitedMs + 20 });
    expect(named('start VM').links).toBeUndefined();
  });
});

describe('what goes wrong', () => {
  test('a start that somebody has to help is told as failed with the reason only, and once', () => {
    const leader = aLeader();
    const vm = tracedVm();
    const pod = podFor(leader, vm, { status: readyPod() });
    leader.made(vm, pod, now);
    for (let i = 0; i < 2; i += 1) leader.observe(pass(vm, pod, stalled));
    expect(spans.filter(({ name }) => name === 'start VM')).toHaveLength(1);
    expect(named('start VM')).toMatchObject({ error: 'DiskFileMissing', parentSpanId: '00f067aa0ba902b7' });
    expect(JSON.stringify(spans)).not.toContain('hunter2');
    const failed = new Set(spans.map(({ spanId }) => spanId));
    spans = [];
    leader.observe(pass(vm, pod, runs, answering()));
    expect(named('start VM').error).toBeUndefined();
    for (const { spanId } of spans) expect(failed).not.toContain(spanId);
  });

  test('a VM that no node took before its deadline says why', () => {
    const leader = aLeader();
    const vm = tracedVm();
    for (let i = 0; i < 20; i += 1) {
      leader.refused(vm, `0/${i} nodes are available`);
      leader.observe(pass(vm, undefined, waits));
    }
    leader.refused(vm, '0/7 nodes are available');
    leader.expired(vm);
    // The pass that removed it ends, and the cache still has it for the next one.
    leader.observe(pass(tracedVm(), undefined, waits));
    leader.refused(vm, '0/7 nodes are available');
    leader.forget('vm-uid');
    expect(spans.map(({ name }) => name)).toEqual(['start VM', 'placement']);
    expect(named('start VM').error).toBe('StartDeadlineExceeded');
    expect(named('placement').events).toHaveLength(8);
    expect(named('placement').events?.[0]).toMatchObject({
      name: 'unschedulable',
      attributes: { 'svc3.reason': '0/0 nodes are available' },
    });
  });

  test('a VM whose deadline is over when it is first looked at has a trace as well', () => {
    const leader = aLeader();
    leader.expired(tracedVm());
    leader.forget('vm-uid');
    expect(spans).toMatchObject([{ name: 'start VM', error: 'StartDeadlineExceeded', startMs: created }]);
  });

  test('a VM that is deleted before it runs ends its trace', () => {
    const leader = aLeader();
    leader.observe(pass(tracedVm(), undefined, waits));
    leader.forget('vm-uid');
    expect(spans.map(({ name, error }) => [name, error])).toEqual([['start VM', 'Deleted']]);
  });

  test('a VM that is to be stopped has no start', () => {
    const leader = aLeader();
    const vm = tracedVm();
    const pod = podFor(leader, vm, { status: readyPod() });
    leader.made(vm, pod, now);
    const stopped: StatusDraft = {
      fields: { powerState: 'Stopped' },
      conditions: { ready: condition('True', 'Stopped', '') },
      reconciling: false,
    };
    leader.observe(pass(vm, pod, stopped));
    leader.observe(pass(vm, pod, runs, answering()));
    leader.forget('vm-uid');
    expect(spans).toEqual([]);
  });

  test.each([
    ['before its pod', { startedAtMs: 5, diskMs: 1, machineMs: 1, guestMs: 1 }],
    ['after now', { startedAtMs: ran + 1e12, diskMs: 1, machineMs: 1, guestMs: 1 }],
    ['for a year', { startedAtMs: ran, diskMs: 3e10, machineMs: 3e10, guestMs: 3e10 }],
  ])('a runner that says that it started %s moves nothing out of the life of its VM', (_, firstStart) => {
    start(aLeader(), tracedVm(), answering({ firstStart }));
    for (const { startMs, endMs } of spans) {
      expect(startMs).toBeGreaterThanOrEqual(created);
      expect(endMs).toBeGreaterThanOrEqual(startMs);
      expect(endMs).toBeLessThanOrEqual(ran + 6_000);
    }
  });

  test('the trace that stands on a pod gives nobody the choice of the IDs of spans', () => {
    const leader = aLeader();
    const vm = tracedVm();
    const forged = '00-4bf92f3577b34da6a3ce929d0e0e4736-aaaaaaaaaaaaaaaa-01';
    const pod = podFor(leader, vm, { status: readyPod() });
    pod.metadata.annotations = { [annotations.traceparent]: forged };
    leader.made(vm, pod, now);
    leader.observe(pass(vm, pod, runs, answering()));
    expect(spans.map(({ spanId }) => spanId)).not.toContain('aaaaaaaaaaaaaaaa');
    expect(spans.map(({ parentSpanId }) => parentSpanId)).not.toContain('aaaaaaaaaaaaaaaa');
  });
});

describe('a claim of a guest that waited', () => {
  const standby = (leader: StartTraces, vm: Vm): Pod => {
    const pod = podFor(leader, vm, { status: readyPod() });
    return {
      ...pod,
      metadata: {
        ...pod.metadata,
        name: 'svc3-pool-ci-0a1b2c3d',
        labels: { ...pod.metadata.labels, 'svc3.dev/pool': 'ci' },
        creationTimestamp: '2026-11-01T08:00:00Z',
      },
    };
  };

  test('is one span of the start, and no boot', () => {
    const leader = aLeader();
    const vm = tracedVm();
    leader.claiming(vm);
    now += 80;
    leader.claimed('vm-uid');
    leader.observe(pass(vm, standby(leader, vm), runs, answering()));
    expect(spans.map(({ name }) => name)).toEqual(['start VM', 'claim']);
    expect(named('start VM').attributes['svc3.start.kind']).toBe('claimed');
    expect(named('claim').endMs - named('claim').startMs).toBe(80);
  });

  test('that another leader began lasts from the making of the VM', () => {
    const leader = aLeader();
    const vm = tracedVm();
    leader.observe(pass(vm, standby(leader, vm), runs));
    expect(named('claim').startMs).toBe(created);
  });
});
