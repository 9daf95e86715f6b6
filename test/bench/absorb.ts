import { setTimeout as delay } from 'node:timers/promises';
import type { Pod } from '../../src/api/core.ts';
import { annotations, apiVersion, namespaces } from '../../src/api/meta.ts';
import type { KubeObject } from '../../src/api/object.ts';
import { type Benchmark, type Outcome, rounded, size } from './figures.ts';
import { startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import { record, recordedNode, recordedPod, recordedVm, type Recording, template } from './recording.ts';
import { namespace } from './simulated.ts';
import { startStandIn, type StandInServer } from './standinserver.ts';

/** The operator before a large cluster that others change: what it was told by a real one is told to it many times. */
export const benchmark: Benchmark = {
  about: 'recorded pod events absorbed, start with many VMs, memory',
  settings: {
    SVC3_BENCH_EVENTS: '100000 watch events of pods',
    SVC3_BENCH_PACED_SECONDS: '10 seconds at 10,000 events/s, to see whether it falls behind',
    SVC3_BENCH_KEPT_VMS: '8000 VMs while they come, and when memory is read',
    SVC3_BENCH_START_VMS: '50000 VMs at the start',
  },
  measure,
};

/** Grows from event to event, as a server's does. */
let lastVersion = 2_000;
function nextVersion(): number {
  lastVersion += 1;
  return lastVersion;
}

const podsPath = '/api/v1/pods';
const pageSize = 500;
const perNode = 10;
const pace = 10_000;

async function measure(): Promise<Outcome> {
  const recording = await record();
  const kept = size('SVC3_BENCH_KEPT_VMS', 8_000);
  const many = size('SVC3_BENCH_START_VMS', 50_000);
  const absorbed = await absorb(recording, kept);
  const start = await startWith(recording, many);
  return {
    rows: [
      {
        what: `start with ${many} VMs`,
        'to synced, s': rounded(start.syncedMs / 1000),
        'RSS MB': start.rssMB,
      },
      ...absorbed.lagsMs.map((lag, second) => ({
        what: `second ${second + 1} at ${pace}/s`,
        'behind by ms': lag,
      })),
    ],
    figures: [
      { what: 'pod events absorbed in a second', value: absorbed.perSecond, atLeast: 10_000 },
      { what: 'pod events absorbed in a second of CPU', value: absorbed.perCpuSecond, atLeast: 10_000 },
      {
        what: `behind after the last second at ${pace}/s, ms`,
        value: absorbed.lagsMs.at(-1) ?? 0,
        atMost: 1_000,
      },
      { what: `RSS with ${kept} VMs, MB`, value: absorbed.rssMB, atMost: 300 },
      { what: `start with ${many} VMs → first decision, s`, value: start.firstDecisionMs / 1000, atMost: 10 },
    ],
  };
}

/** Names of the many, after the recorded one. */
const holes = (recording: Recording) => ({
  [recordedVm]: (i: number) => `vm-${i}`,
  [recordedNode]: (i: number) => `node-${Math.floor(i / perNode)}`,
  [recording.vmUid]: (i: number) => uid('1', i),
  [recording.podUid]: (i: number) => uid('2', i),
});

function uid(kind: string, i: number): string {
  return `${kind}0000000-0000-4000-8000-${String(i).padStart(12, '0')}`;
}

/** A cluster of `count` VMs that run, and how many VMs more wait for a node. */
async function clusterOf(
  recording: Recording,
  count: number,
  written: (method: string, path: string) => void,
): Promise<StandInServer> {
  const vm = template(recording.vm, holes(recording));
  const pod = template(recording.pod, holes(recording));
  const node = template(recording.node, { [recordedNode]: (i) => `node-${i}` });
  const all = Array.from({ length: count }, (_, i) => i);
  const nodes = all.slice(0, Math.ceil(count / perNode) + 1);
  // Its pod is not there: it has to be placed.
  const {
    status: _status,
    metadata,
    ...rest
  } = JSON.parse(vm(count, 900)) as KubeObject & { status: unknown };
  const waiting = JSON.stringify({ ...rest, metadata });
  const vmsPath = `/apis/${apiVersion}/vms`;
  const found = new RegExp(`/namespaces/${namespace}/vms/vm-(\\d+)$`);
  return startStandIn({
    lists: {
      [podsPath]: pages(all.map((i) => () => pod(i, 800))),
      [vmsPath]: pages([...all.map((i) => () => vm(i, 700)), () => waiting]),
      [`/api/v1/namespaces/${namespaces.system}/secrets`]: [Buffer.from(recording.controlKey)],
      '/api/v1/nodes': pages(nodes.map((i) => () => node(i, 600))),
    },
    stored(path) {
      const index = found.exec(path)?.[1];
      return index === undefined ? undefined : (JSON.parse(vm(Number(index), 700)) as KubeObject);
    },
    written,
  });
}

function pages(items: readonly (() => string)[]): Buffer[] {
  const result: Buffer[] = [];
  for (let at = 0; at < items.length; at += pageSize) {
    const page = items.slice(at, at + pageSize).map((item) => item());
    result.push(Buffer.from(page.join(',')));
  }
  return result;
}

async function startWith(
  recording: Recording,
  count: number,
): Promise<{ firstDecisionMs: number; syncedMs: number; rssMB: number }> {
  let decidedAt: number | undefined;
  const server = await clusterOf(recording, count, (method, path) => {
    if (method === 'POST' && path.endsWith('/pods')) decidedAt ??= performance.now();
  });
  const began = performance.now();
  const operator = await startOperatorProcess(server.kubeconfigPath);
  try {
    await until('the first decision', () => decidedAt !== undefined, { forMs: 600_000 });
    const rssMB = Math.round(operator.usage().rssMB);
    return { firstDecisionMs: (decidedAt ?? NaN) - began, syncedMs: operator.readyMs, rssMB };
  } finally {
    await operator.stop();
    server.stop();
  }
}

interface Absorbed {
  readonly perSecond: number;
  readonly perCpuSecond: number;
  readonly rssMB: number;
  /** How far behind the stream the operator was at the end of each second. */
  readonly lagsMs: readonly number[];
}

/** The stream ends with a pod that has old control keys: that they are renewed shows that all before it is done. */
async function absorb(recording: Recording, count: number): Promise<Absorbed> {
  const renewed = new Map<string, number>();
  const server = await clusterOf(recording, count, (method, path) => {
    const name = /\/pods\/([^/]+)$/.exec(path)?.[1];
    if (method === 'PATCH' && name !== undefined && !renewed.has(name)) renewed.set(name, performance.now());
  });
  const operator = await startOperatorProcess(server.kubeconfigPath);
  try {
    await until('the watch of pods', () => server.isWatched(podsPath));
    await delay(5_000);
    const { rssMB } = operator.usage();
    const next = eventsOf(recording, count);
    const sign = signsOf(recording, renewed, server);
    for (let sent = 0; sent < 5_000; sent += 100) await server.send(podsPath, next(100));
    await sign(0);
    const total = size('SVC3_BENCH_EVENTS', 100_000);
    const cpuBefore = operator.usage().cpuMs;
    const began = performance.now();
    for (let sent = 0; sent < total; sent += 100) await server.send(podsPath, next(100));
    await sign(1);
    const tookMs = performance.now() - began;
    const cpuMs = operator.usage().cpuMs - cpuBefore;
    const lagsMs = await paced(server, next, sign);
    return {
      perSecond: Math.round((total / tookMs) * 1000),
      perCpuSecond: Math.round((total / cpuMs) * 1000),
      rssMB,
      lagsMs,
    };
  } finally {
    await operator.stop();
    server.stop();
  }
}

async function paced(
  server: StandInServer,
  next: (amount: number) => string[],
  sign: (vm: number) => Promise<number>,
): Promise<number[]> {
  const lags: Promise<number>[] = [];
  const start = performance.now();
  const seconds = size('SVC3_BENCH_PACED_SECONDS', 10);
  for (let second = 0; second < seconds; second++) {
    for (let slice = 0; slice < 100; slice++) {
      await server.send(podsPath, next(pace / 100));
      await delay(Math.max(0, start + second * 1000 + (slice + 1) * 10 - performance.now()));
    }
    const due = start + (second + 1) * 1000;
    lags.push(sign(2 + second).then((at) => Math.round(at - due)));
  }
  return Promise.all(lags);
}

/** Half of them the lives of other pods, half news of pods of VMs that change nothing for these. */
function eventsOf(recording: Recording, count: number): (amount: number) => string[] {
  const ofVm = template(`{"type":"MODIFIED","object":${recording.pod}}`, holes(recording));
  const ofOthers = recording.otherEvents.map((line) =>
    template(line, {
      [recordedPod]: (i) => `other-${i}`,
      [recordedNode]: (i) => `node-${i % Math.ceil(count / perNode)}`,
      [recording.otherUid]: (i) => uid('3', i),
    }),
  );
  let made = 0;
  return (amount) =>
    Array.from({ length: amount }, () => {
      const number = made++;
      const version = nextVersion();
      if (number % 2 === 0) return ofVm(100 + ((number / 2) % Math.max(1, count - 100)), version);
      const turn = (number - 1) / 2;
      const event = ofOthers[turn % ofOthers.length];
      return event?.(Math.floor(turn / ofOthers.length), version) ?? '';
    });
}

/** Sends the sign on VM number so and so, and says when the operator had come so far. */
function signsOf(
  recording: Recording,
  renewed: ReadonlyMap<string, number>,
  server: StandInServer,
): (vm: number) => Promise<number> {
  const pod = template(recording.pod, holes(recording));
  return async (index) => {
    const object = JSON.parse(pod(index, nextVersion())) as Pod;
    const { name, annotations: given } = object.metadata;
    object.metadata.annotations = { ...given, [annotations.controlKeys]: 'old' };
    await server.send(podsPath, [JSON.stringify({ type: 'MODIFIED', object })]);
    await until(`the keys of ${name}`, () => renewed.has(name), { stepMs: 5 });
    return renewed.get(name) ?? NaN;
  };
}
