import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { namespaces as names, objectNames } from '../../src/api/meta.ts';
import { namespaces, roleBindings, roles, secrets, vms } from '../../src/api/resources.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { resourcePath } from '../../src/kube/path.ts';
import { type OwnControlPlane, ownControlPlane } from '../support/controlplane.ts';
import { installDefinitions } from '../support/definitions.ts';
import { identity } from '../support/identity.ts';
import { startBenchApi } from './apiprocess.ts';
import { startBareProcess } from './bareprocess.ts';
import type { BareProxy, BareProxyListens } from './bareproxy.ts';
import { type Benchmark, type Budget, median, type Outcome, rounded, size } from './figures.ts';
import type { Load, LoadResult } from './load.ts';
import { othersCpuMs, usageOf } from './operatorprocess.ts';
import { inParallel } from '../support/parallel.ts';
import { benchVm } from './simulated.ts';

/**
 * `/api/v1` beside kube-apiserver, which answers for the same objects in the same run, in turns; creates also beside a proxy
 * that only passes them on: what a process of Node between client and kube-apiserver costs on the same processors.
 */
export const benchmark: Benchmark = {
  about: 'lists, gets and creates of VMs through /api/v1 beside kube-apiserver',
  settings: {
    SVC3_BENCH_VMS: '5000 VMs in the large namespace',
    SVC3_BENCH_REQUESTS:
      '3000 creates in a turn; gets: three times as many, lists as many, large ones a fiftieth',
    SVC3_BENCH_CLIENTS: '500 clients at the most; there is also a turn with 1 and one with a tenth',
    SVC3_BENCH_TURNS: '3 turns of each, of which the median counts',
  },
  measure,
};

const smallCount = 100;

const callerCount = 100;

interface Case {
  readonly name: string;
  readonly requests: number;
  /** The namespace in which one of the VMs changes every second meanwhile, and that so many callers ask for: no reply is good for all that follow. */
  readonly changingFor?: string;
  readonly ours: Pick<Load, 'method' | 'path' | 'body'>;
  readonly theirs: Pick<Load, 'method' | 'path' | 'body'>;
  /** How much of kube-apiserver's throughput is demanded; of creates it is what they cost beside a bare proxy. */
  readonly atLeast?: number;
}

function casesOf(requests: number, large: number, unique: () => string): Case[] {
  const native = (namespace: string) => `/apis/svc3.dev/v1/namespaces/${namespace}/vms`;
  const own = (namespace: string) => `/api/v1/namespaces/${namespace}/vms`;
  // From its watch cache, as ours: what kube-apiserver does fastest.
  const list = (name: string, namespace: string, count: number): Case => ({
    name,
    requests: Math.max(1, Math.round(count)),
    ours: { method: 'GET', path: own(namespace) },
    theirs: { method: 'GET', path: `${native(namespace)}?resourceVersion=0` },
    atLeast: 5,
  });
  const { metadata, ...vm } = benchVm('a');
  const { image, cpu, memory } = vm.spec;
  return [
    list(`list ${smallCount}`, 'small', requests),
    {
      ...list(`list ${smallCount} by ${callerCount} callers, a change/s`, 'small', requests),
      changingFor: 'small',
    },
    {
      name: 'get',
      requests: requests * 3,
      ours: { method: 'GET', path: `${own('small')}/vm-7` },
      theirs: { method: 'GET', path: `${native('small')}/vm-7` },
      atLeast: 2,
    },
    {
      name: 'create',
      requests,
      ours: {
        method: 'POST',
        path: `${own('created')}?wait=false`,
        body: JSON.stringify({
          name: `a-${unique()}-{index}`,
          image,
          cpu,
          memory: parseInt(memory ?? '', 10) / 1024,
        }),
      },
      theirs: {
        method: 'POST',
        path: native('created'),
        body: JSON.stringify({
          ...vm,
          metadata: { ...metadata, namespace: 'created', name: `k-${unique()}-{index}` },
        }),
      },
    },
    // Last: kube-apiserver grows to gigabytes by it and then collects no garbage for a while.
    list(`list ${large}`, 'large', requests / 50),
    {
      ...list(`list ${large} by ${callerCount} callers, a change/s`, 'large', requests / 50),
      changingFor: 'large',
    },
  ];
}

async function generate(load: Load): Promise<LoadResult> {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'load.ts')], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
  });
  child.stdin.end(JSON.stringify(load));
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`the load generator ended with ${String(code)}`);
  return JSON.parse(output) as LoadResult;
}

async function fill(client: RootClient, large: number): Promise<void> {
  const amounts: Record<string, number> = { small: smallCount, large, created: 0, [names.system]: 0 };
  for (const [namespace, amount] of Object.entries(amounts)) {
    await client.create(namespaces, { metadata: { name: namespace } });
    const names = Array.from({ length: amount }, (_, index) => `vm-${index}`);
    await inParallel(names, 16, (name) => {
      const vm = benchVm(name);
      return client.create(vms, { ...vm, metadata: { name, namespace } });
    });
  }
}

/** What one turn made would be in the caches, and in the memory, of all that follow. */
async function forgetCreated(client: RootClient): Promise<void> {
  await client.request({
    method: 'DELETE',
    path: resourcePath(vms, { namespace: 'created' }),
    timeoutMs: 300_000,
  });
}

function apiServerPid({ server }: OwnControlPlane): number {
  const flag = `--secure-port=${new URL(server).port}`;
  const pid = readdirSync('/proc').find((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      return readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0').includes(flag);
    } catch {
      return false;
    }
  });
  if (pid === undefined) throw new Error('kube-apiserver has no process');
  return Number(pid);
}

interface Turn extends LoadResult {
  readonly cpuMsPerRequest: number;
  /** Of all processes, without those of the benchmark itself. */
  readonly allCpuMsPerRequest: number;
  readonly rssMB: number;
}

async function turn(load: Load, pid: number): Promise<Turn> {
  const before = usageOf(pid).cpuMs;
  const allBefore = othersCpuMs();
  const result = await generate(load);
  const { cpuMs, rssMB } = usageOf(pid);
  return {
    ...result,
    cpuMsPerRequest: (cpuMs - before) / load.requests,
    allCpuMsPerRequest: (othersCpuMs() - allBefore) / load.requests,
    rssMB,
  };
}

function middle(turns: readonly Turn[]): Turn {
  const of = (key: keyof Turn) => median(turns.map((each) => each[key]));
  return {
    perSecond: of('perSecond'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    bytesPerReply: of('bytesPerReply'),
    putOff: of('putOff'),
    cpuMsPerRequest: of('cpuMsPerRequest'),
    allCpuMsPerRequest: of('allCpuMsPerRequest'),
    rssMB: of('rssMB'),
    loadCpuMs: of('loadCpuMs'),
  };
}

function rowOf(name: string, clients: number, who: string, found: Turn): object {
  return {
    case: name,
    clients,
    who,
    'requests/s': Math.round(found.perSecond),
    'P50 ms': rounded(found.p50Ms),
    'P99 ms': rounded(found.p99Ms),
    'CPU ms each': rounded(found.cpuMsPerRequest, 3),
    'of all': rounded(found.allCpuMsPerRequest, 3),
    'of the load': rounded(found.loadCpuMs, 3),
    'RSS MB': Math.round(found.rssMB),
    'KB each': rounded(found.bytesPerReply / 1024, 1),
    '429s': Math.round(found.putOff),
  };
}

function figuresOf({ name, atLeast }: Case, clients: number, { ours, theirs, bare }: Found): Budget[] {
  const what = `${name}, ${clients} client${clients === 1 ? '' : 's'}`;
  const figures: Budget[] = [
    {
      what: `${what}: throughput beside kube-apiserver`,
      value: ours.perSecond / theirs.perSecond,
      ...(atLeast === undefined ? {} : { atLeast }),
    },
  ];
  if (name === 'get')
    figures.push({ what: `${what}: P99 beside kube-apiserver`, value: ours.p99Ms / theirs.p99Ms, atMost: 1 });
  if (bare !== undefined) {
    figures.push({
      what: `${what}: a bare proxy beside kube-apiserver`,
      value: bare.perSecond / theirs.perSecond,
    });
    figures.push({ what: `${what}: svc3 beside the bare proxy`, value: ours.perSecond / bare.perSecond });
    figures.push({
      what: `${what}: CPU of all processes beside the bare proxy`,
      value: ours.allCpuMsPerRequest / bare.allCpuMsPerRequest,
      atMost: 1.3,
    });
  }
  if (name === 'create' && clients === 1)
    figures.push({ what: `${what}: our share of P50, ms`, value: ours.p50Ms - theirs.p50Ms });
  return figures;
}

interface Sides {
  readonly ours: Side;
  readonly theirs: Side;
  /** A proxy that only passes on, asked with the words for kube-apiserver. */
  readonly bare: Side;
}

/** The bare proxy takes part where it says something: in creates. */
type Found = Record<'ours' | 'theirs', Turn> & Partial<Record<'bare', Turn>>;

interface Side {
  readonly pid: number;
  readonly origin: string;
  readonly caPem: string;
}

interface World {
  readonly client: RootClient;
  readonly sides: Sides;
  readonly adminToken: string;
  /** Of callers that may read the VMs of both namespaces. */
  readonly callers: readonly string[];
}

async function turnOf(
  { client, sides, adminToken, callers }: World,
  who: keyof Sides,
  { changingFor, ...each }: Case,
  clients: number,
): Promise<Turn> {
  const { pid, ...side } = sides[who];
  const request = who === 'ours' ? each.ours : each.theirs;
  // One client does not need as many to show a median.
  const requests = Math.max(clients, clients === 1 ? Math.ceil(each.requests / 5) : each.requests);
  const tokens = changingFor === undefined ? [adminToken] : callers;
  const load = { ...side, ...request, tokens, clients, requests };
  if (changingFor === undefined) return turn(load, pid);
  const changes = changeEverySecond(client, changingFor);
  try {
    return await turn(load, pid);
  } finally {
    await changes.stop();
  }
}

function changeEverySecond(client: RootClient, namespace: string): { stop(): Promise<void> } {
  let count = 0;
  let last: Promise<unknown> = Promise.resolve();
  const change = (): void => {
    const body = { metadata: { annotations: { changed: `${(count += 1)}` } } };
    last = client.patch(vms, { name: 'vm-7', namespace }, { type: 'merge', body });
    // Told when it is stopped.
    last.catch(() => undefined);
  };
  const timer = setInterval(change, 1_000);
  return {
    async stop() {
      clearInterval(timer);
      await last;
    },
  };
}

/** Service accounts of a namespace that may read the VMs of it and of another; their tokens. */
async function makeCallers(client: RootClient, namespace: string, other: string): Promise<string[]> {
  await letCallersRead(client, namespace, namespace);
  await letCallersRead(client, namespace, other);
  const accounts = Array.from({ length: callerCount }, (_, index) => `caller-${index}`);
  const tokens: string[] = [];
  for (const name of accounts) tokens.push(await identity(client, name, { namespace }));
  return tokens;
}

async function letCallersRead(client: RootClient, from: string, namespace: string): Promise<void> {
  await client.create(roles, {
    metadata: { name: 'callers', namespace },
    rules: [{ apiGroups: ['svc3.dev'], resources: ['vms'], verbs: ['get', 'list', 'watch'] }],
  });
  await client.create(roleBindings, {
    metadata: { name: 'callers', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'callers' },
    subjects: [
      { apiGroup: 'rbac.authorization.k8s.io', kind: 'Group', name: `system:serviceaccounts:${from}` },
    ],
  });
}

/** The sides in turns, another first each time; the median of each. */
async function compare(world: World, next: () => Case, clients: number, turns: number): Promise<Found> {
  const found: Record<keyof Sides, Turn[]> = { ours: [], theirs: [], bare: [] };
  for (let index = 0; index < turns; index += 1) {
    const isCreate = next().theirs.method === 'POST';
    const sides = isCreate ? (['theirs', 'bare', 'ours'] as const) : (['theirs', 'ours'] as const);
    for (const place of sides.keys()) {
      const side = sides[(place + index) % sides.length] ?? 'ours';
      found[side].push(await turnOf(world, side, next(), clients));
      if (isCreate) await forgetCreated(world.client);
    }
  }
  const { ours, theirs, bare } = found;
  return { ours: middle(ours), theirs: middle(theirs), ...(bare.length === 0 ? {} : { bare: middle(bare) }) };
}

async function startBareProxy(plane: OwnControlPlane): Promise<{ side: Side; stop(): void }> {
  const upstream: BareProxy = { origin: plane.server, caPem: plane.caPem };
  const { pid, said, stop } = await startBareProcess('bareproxy.ts', upstream);
  const { port, caPem } = JSON.parse(said) as BareProxyListens;
  return { side: { pid, origin: `https://localhost:${port}`, caPem }, stop };
}

async function withApi<T>(plane: OwnControlPlane, client: RootClient, use: (sides: Sides) => Promise<T>) {
  const api = await startBenchApi(plane.kubeconfigPath, plane.dir);
  const proxy = await startBareProxy(plane);
  try {
    const { data } = await client.get(secrets, objectNames.apiTlsSecret, names.system);
    return await use({
      ours: {
        pid: api.pid,
        origin: `https://localhost:${api.port}`,
        caPem: Buffer.from(data?.['tls.crt'] ?? '', 'base64').toString('utf8'),
      },
      theirs: { pid: apiServerPid(plane), origin: plane.server, caPem: plane.caPem },
      bare: proxy.side,
    });
  } finally {
    proxy.stop();
    await api.stop();
  }
}

async function measure(): Promise<Outcome> {
  const large = size('SVC3_BENCH_VMS', 5000);
  const requests = size('SVC3_BENCH_REQUESTS', 3000);
  const most = size('SVC3_BENCH_CLIENTS', 500);
  const turns = size('SVC3_BENCH_TURNS', 3);
  const plane = await ownControlPlane({ components: [] });
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath), { userAgent: 'bench' });
  let series = 0;
  const cases = (count = requests) => casesOf(count, large, () => `${series++}`);
  try {
    await installDefinitions(client);
    await fill(client, large);
    const callers = await makeCallers(client, 'small', 'large');
    return await withApi(plane, client, async (sides) => {
      const world = { client, sides, adminToken: plane.adminToken, callers };
      const rows: object[] = [];
      const figures: Budget[] = [];
      const few = Math.max(1, Math.round(most / 10));
      // Code is compiled and caches are warm before anything counts.
      for (const index of cases().keys()) await compareNth(index, few, 1);
      for (const clients of new Set([1, few, most]))
        for (const [index, each] of cases().entries()) {
          const found = await compareNth(index, clients, turns);
          rows.push(rowOf(each.name, clients, 'svc3', found.ours));
          rows.push(rowOf(each.name, clients, 'kube-apiserver', found.theirs));
          if (found.bare !== undefined) rows.push(rowOf(each.name, clients, 'a bare proxy', found.bare));
          figures.push(...figuresOf(each, clients, found));
        }
      const { peakRssMB } = usageOf(sides.ours.pid);
      figures.push({ what: 'RSS of the api at its peak, MB', value: peakRssMB, atMost: 200 });
      return { rows, figures };

      function compareNth(index: number, clients: number, times: number) {
        const next = () => cases()[index] as Case;
        return compare(world, next, clients, times);
      }
    });
  } finally {
    await client.close();
    await plane.remove();
  }
}
