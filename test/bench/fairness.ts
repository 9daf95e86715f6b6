import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { images, namespaces, pods, registryCredentials, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { resourcePath } from '../../src/kube/path.ts';
import type { KubeObject, Resource, Submitted } from '../../src/api/object.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { startRegistry } from '../support/registry.ts';
import { type Benchmark, type Outcome, percentile, rounded, size } from './figures.ts';
import { type OperatorProcess, startOperatorProcess } from './operatorprocess.ts';
import { until } from './until.ts';
import { inParallel } from '../support/parallel.ts';
import {
  barePod,
  benchVm,
  createAtRate,
  deleteAll,
  type Observer,
  observe,
  simulatedCluster,
  type SimulatedCluster,
} from './simulated.ts';

/** What one namespace costs another: VMs whose registries are silent, image pulls and credentials that fail. */
export const benchmark: Benchmark = {
  about: "create → pod in one namespace while another's VMs, images and credentials fail",
  settings: {
    SVC3_BENCH_FAILING: '1000 VMs, images and credentials each that fail',
    SVC3_BENCH_VMS: '40 VMs of the other namespace in a round',
    SVC3_BENCH_ROUNDS: '4 rounds of each',
    SVC3_BENCH_SILENT: '200 registries that do not answer',
  },
  measure,
};

const failing = 'failing';
const failingKinds = [vms, images, registryCredentials] as unknown as Resource<KubeObject>[];
const perSecond = 4;
const failingPerSecond = 15;

interface Setting {
  readonly cluster: SimulatedCluster;
  readonly operator: OperatorProcess;
  readonly made: Observer<'made'>;
  readonly vmsPerRound: number;
  readonly noise: number;
  /** Registries that do not answer, `host:port`. */
  readonly silent: readonly string[];
}

async function measure(): Promise<Outcome> {
  const rounds = size('SVC3_BENCH_ROUNDS', 4);
  const nodes = Array.from({ length: 60 }, (_, i) => ({
    name: `node-${i}`,
    allocatable: { cpu: '64', memory: '256Gi' },
  }));
  const [cluster, registry] = await Promise.all([simulatedCluster(nodes), startRegistry()]);
  const servers = await silentServers(size('SVC3_BENCH_SILENT', 200));
  const operator = await startOperatorProcess(cluster.operatorKubeconfigPath, {
    SVC3_STORE_URL: `http://${registry.address}`,
    SVC3_WORKER_IMAGE: 'a',
  });
  const made = observe(cluster.watched.pods, { made: () => true });
  const setting: Setting = {
    cluster,
    operator,
    made,
    vmsPerRound: size('SVC3_BENCH_VMS', 40),
    noise: size('SVC3_BENCH_FAILING', 1_000),
    silent: servers.map((server) => `127.0.0.1:${(server.address() as AddressInfo).port}`),
  };
  try {
    await prepare(setting);
    const idle: Times = { vm: [], bare: [] };
    const beside: Times = { vm: [], bare: [] };
    for (let round = 0; round < rounds; round += 1) {
      const turns = [
        async () => add(idle, await createToPod(setting, `idle-${round}`)),
        async () => add(beside, await besideNoise(setting, round)),
      ];
      for (const turn of round % 2 === 0 ? turns : turns.reverse()) await turn();
    }
    return outcome(idle, beside);
  } finally {
    made.stop();
    await operator.stop();
    await cluster.remove();
    await registry.stop();
    for (const server of servers) server.close();
  }
}

/** They take connections and say nothing. */
function silentServers(count: number): Promise<Server[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1');
      await once(server, 'listening');
      return server;
    }),
  );
}

async function prepare(setting: Setting): Promise<void> {
  const { client, kubelet } = setting.cluster;
  await client.create(namespaces, { metadata: { name: failing } });
  kubelet.behave(({ metadata }) =>
    metadata.namespace === failing && metadata.name?.startsWith('svc3-vm-')
      ? { kind: 'waiting', reason: 'ImagePullBackOff', message: 'no answer' }
      : { kind: 'run' },
  );
  await createToPod(setting, 'warm');
}

/** Milliseconds from a create to the pod that a watch shows. */
interface Times {
  readonly vm: number[];
  /** Of a pod that is created itself: what the control plane takes, whoever asks. */
  readonly bare: number[];
}

async function createToPod(
  { cluster, operator, made, vmsPerRound }: Setting,
  prefix: string,
): Promise<Times> {
  const { client } = cluster;
  const names = Array.from({ length: vmsPerRound }, (_, i) => `${prefix}-${i}`);
  const [vmsBegun, barePods] = await Promise.all([
    createAtRate(
      client,
      vms,
      names.map((name) => benchVm(name)),
      perSecond,
    ),
    createAtRate(
      client,
      pods,
      names.map((name) => barePod(name)),
      perSecond,
    ),
  ]);
  const at = (pod: string) => made.at('made', pod);
  const all = names.flatMap((name) => [name, podNameOf(name)]);
  await until('all VMs to have pods', () => {
    if (operator.child.exitCode !== null) throw new Error('the operator ended, as where it loses its lease');
    return all.every((name) => at(name) !== undefined);
  });
  await deleteAll(client, vms, names, { andWait: false });
  await deleteAll(client, pods, names, { andWait: false });
  return {
    vm: names.map((name) => (at(podNameOf(name)) ?? NaN) - (vmsBegun.get(name) ?? NaN)),
    bare: names.map((name) => (at(name) ?? NaN) - (barePods.get(name) ?? NaN)),
  };
}

/**
 * Images and credentials fail already, and VMs go on coming: more in the time that a silent registry is waited for than
 * there were ever workers.
 */
async function besideNoise(setting: Setting, round: number): Promise<Times> {
  const { client } = setting.cluster;
  const names = Array.from({ length: setting.noise }, (_, i) => `r${round}-${i}`);
  const resting = names.flatMap((name) => [failingImage(setting, name), failingCredential(name)]);
  await inParallel(resting, 8, ({ resource, object }) => client.create(resource, object));
  await until('images and credentials to be seen', () => isSeen(setting), { stepMs: 500 });
  const coming = createAtRate(
    client,
    vms,
    names.map((name) => failingVm(setting, name)),
    failingPerSecond,
  );
  await delay((names.length / failingPerSecond / 4) * 1_000);
  const times = await createToPod(setting, `beside-${round}`);
  await coming;
  await removeNoise(setting);
  return times;
}

interface Failing {
  readonly resource: Resource<KubeObject>;
  readonly object: KubeObject;
}

function silentHost({ silent }: Setting, name: string): string {
  return silent[Number(name.split('-')[1]) % silent.length] ?? '';
}

function failingVm(setting: Setting, name: string): Submitted<Vm> {
  const image = `${silentHost(setting, name)}/${name}:1`;
  const { architecture: _architecture, ...spec } = benchVm(name).spec;
  return { ...benchVm(name), metadata: { name, namespace: failing }, spec: { ...spec, image } };
}

function failingImage(setting: Setting, name: string): Failing {
  const reference = `${silentHost(setting, name)}/${name}:1`;
  const object = { metadata: { name, namespace: failing }, spec: { source: { remote: { reference } } } };
  return { resource: images, object };
}

function failingCredential(name: string): Failing {
  const spec = {
    server: `https://${name}.example.com`,
    allowInsecure: false,
    secretRef: { name: `missing-${name}` },
  };
  const object = { metadata: { name: `${name}.example.com.443`, namespace: failing }, spec };
  return { resource: registryCredentials, object };
}

/** What came is dealt with for the first time: from then on it only fails. */
async function isSeen({ cluster: { client } }: Setting): Promise<boolean> {
  const lists = await Promise.all(
    [images, registryCredentials].map((kind) =>
      client.list(kind as unknown as Resource<Vm>, { namespace: failing }),
    ),
  );
  return lists.every(({ items }) => items.every(({ status }) => status?.conditions !== undefined));
}

async function removeNoise({ cluster: { client } }: Setting): Promise<void> {
  const kinds = [...failingKinds, pods];
  const pathOf = (kind: Resource<KubeObject>) => resourcePath(kind, { namespace: failing });
  // All of a kind in one call.
  for (const kind of failingKinds)
    await client.request({ method: 'DELETE', path: pathOf(kind), timeoutMs: 300_000 });
  const isEmpty = async () => {
    const left = await Promise.all(
      kinds.map((kind) =>
        client.request<{ items: object[] }>({ method: 'GET', path: pathOf(kind), query: { limit: 1 } }),
      ),
    );
    return left.every(({ body }) => body.items.length === 0);
  };
  await until('all that fails to be deleted', isEmpty, { stepMs: 500 });
}

function add(into: Times, { vm, bare }: Times): void {
  into.vm.push(...vm);
  into.bare.push(...bare);
}

function outcome(idle: Times, beside: Times): Outcome {
  const row = (what: string, values: readonly number[]) => ({
    what,
    'P50 ms': Math.round(percentile(values, 0.5)),
    'P95 ms': Math.round(percentile(values, 0.95)),
    'max ms': Math.round(Math.max(...values)),
  });
  const ratio = (what: keyof Times, of: number) =>
    rounded(percentile(beside[what], of) / percentile(idle[what], of));
  return {
    rows: [
      row('VM, nothing else', idle.vm),
      row('VM, beside a namespace that fails', beside.vm),
      row('bare pod, nothing else', idle.bare),
      row('bare pod, beside a namespace that fails', beside.bare),
    ],
    figures: [
      { what: 'bare pod beside a namespace that fails, P95 by idle', value: ratio('bare', 0.95) },
      { what: 'VM create → pod beside a namespace that fails, P50 by idle', value: ratio('vm', 0.5) },
      {
        what: 'VM create → pod beside a namespace that fails, P95 by idle',
        value: ratio('vm', 0.95),
        atMost: 2,
      },
    ],
  };
}
