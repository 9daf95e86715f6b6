import type { ConfigMap, Pod } from '../../src/api/core.ts';
import { annotations, extendedResources, labels } from '../../src/api/meta.ts';
import { configMaps, events, pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { KubeObject, Resource } from '../../src/kube/types.ts';
import { podNameOf } from '../../src/vm/names.ts';
import type { SimulatedNodeSpec } from '../support/kubelet.ts';
import { auditReader } from './audit.ts';
import { type Benchmark, median, type Outcome, percentile, rounded, size } from './figures.ts';
import { startOperatorProcess, type Usage } from './operatorprocess.ts';
import { inParallel, until } from './parallel.ts';
import {
  barePod,
  benchVm,
  deleteAll,
  isPodBound,
  isVmReady,
  namespace,
  observe,
  simulatedCluster,
  type SimulatedCluster,
} from './simulated.ts';

/**
 * How many VMs find their node in a second, beside kube-scheduler alone that binds as many bare pods with the same
 * constraint while a loop makes as many further writes as svc3 does.
 */
export const benchmark: Benchmark = {
  about: 'placements in a second on GPU nodes, beside kube-scheduler alone',
  settings: {
    SVC3_BENCH_GPU_NODES: '1000 nodes with one GPU bundle each',
    SVC3_BENCH_GPU_VMS: '1000 VMs with a GPU, at most as many as nodes',
    SVC3_BENCH_PLAIN_VMS: '5000 VMs without',
    SVC3_BENCH_ROUNDS: '3 rounds of each, taking turns; the median counts',
  },
  measure,
};

interface Kind {
  readonly name: 'GPU' | 'plain';
  readonly count: number;
  pod(name: string): Pod;
  vm(name: string): Vm;
}

interface Round {
  readonly perSecond: number;
  /** Milliseconds from create to Running, VMs only. */
  readonly runningMs: readonly number[];
  readonly writesPerVm: number;
  readonly requests: Readonly<Record<string, number>>;
  readonly cpuMsPerVm: number;
  readonly usage: Usage | undefined;
}

/** Creations under way at once. */
const creators = 32;

async function measure(): Promise<Outcome> {
  const nodes = size('SVC3_BENCH_GPU_NODES', 1000);
  const rounds = Math.max(1, size('SVC3_BENCH_ROUNDS', 3));
  const cluster = await simulatedCluster(Array.from({ length: nodes }, (_, i) => gpuNode(`node-${i}`)));
  const rows: object[] = [];
  const figures: Outcome['figures'][number][] = [];
  try {
    for (const kind of kinds(Math.min(nodes, size('SVC3_BENCH_GPU_VMS', 1000)))) {
      await vmRound(cluster, { ...kind, count: Math.min(kind.count, 50) }, 'warm');
      await podRound(cluster, { ...kind, count: Math.min(kind.count, 50) }, 'warm', 5);
      const made: Round[] = [];
      const bare: Round[] = [];
      for (let turn = 0; turn < rounds; turn++) {
        const last = await vmRound(cluster, kind, `r${turn}`);
        made.push(last);
        bare.push(await podRound(cluster, kind, `r${turn}`, last.writesPerVm));
      }
      rows.push(...made.map((round, i) => rowOf(kind, round, bare[i])));
      const ratios = made.map(({ perSecond }, i) => perSecond / (bare[i]?.perSecond ?? NaN));
      figures.push({
        what: `${kind.name}: placements/s beside kube-scheduler`,
        value: median(ratios),
        atLeast: 0.9,
      });
      const worst = Math.max(...made.map(({ usage }) => usage?.peakRssMB ?? NaN));
      figures.push({ what: `${kind.name}: RSS at its peak, MB`, value: worst });
    }
  } finally {
    await cluster.remove();
  }
  return { rows, figures };
}

function kinds(gpuVms: number): Kind[] {
  const gpu = { [extendedResources.gpuPassthrough]: '1' };
  const selector = { [labels.gpuPassthrough]: 'enabled' };
  return [
    {
      name: 'GPU',
      count: gpuVms,
      vm: (name) => benchVm(name, { gpuPassthrough: 'Enabled' }),
      pod: (name) => withGpu(barePod(name), gpu, selector),
    },
    {
      name: 'plain',
      count: size('SVC3_BENCH_PLAIN_VMS', 5000),
      vm: (name) => benchVm(name),
      pod: (name) => barePod(name),
    },
  ];
}

function withGpu(pod: Pod, limits: Record<string, string>, nodeSelector: Record<string, string>): Pod {
  const containers = pod.spec.containers.map((container) => ({
    ...container,
    resources: { ...container.resources, limits },
  }));
  return { ...pod, spec: { ...pod.spec, containers, nodeSelector } };
}

function gpuNode(name: string): SimulatedNodeSpec {
  const card = { address: '0000:01:00.0', class: '030000', driver: 'vfio-pci' };
  const hardware = {
    version: 1,
    model: 'Simulated',
    architecture: 'amd64',
    iommu: true,
    displayDevices: [
      {
        ...card,
        vendor: '10de',
        device: '1eb8',
        subsystemVendor: '10de',
        subsystemDevice: '12a2',
        iommuGroup: 1,
        groupDevices: [card],
        bootDisplay: false,
      },
    ],
  };
  return {
    name,
    labels: { [labels.allowGpuPassthrough]: 'true', [labels.gpuPassthrough]: 'enabled' },
    annotations: { [annotations.hardware]: JSON.stringify(hardware) },
    allocatable: { cpu: '32', memory: '128Gi', [extendedResources.gpuPassthrough]: '1' },
  };
}

async function vmRound(cluster: SimulatedCluster, kind: Kind, turn: string): Promise<Round> {
  const { client, controlPlane } = cluster;
  const names = namesOf(`${kind.name.toLowerCase()}-${turn}`, kind.count);
  const operator = await startOperatorProcess(controlPlane.kubeconfigPath, {
    SVC3_GPU_PASSTHROUGH_ENABLED: 'true',
  });
  const bound = await observe(client, pods, { bound: isPodBound });
  const ready = await observe(client, vms, { ready: isVmReady });
  try {
    // The first VM shows that this operator leads.
    await client.create(vms, benchVm('first'));
    await until('the operator to lead', () => ready.at('ready', 'first') !== undefined);
    await deleteAll(client, vms, ['first']);
    const audit = auditReader(controlPlane.auditLogPath);
    await audit.since();
    const before = operator.usage().cpuMs;
    const begun = await createAll(client, vms, names.map(kind.vm));
    const perSecond = await rateOf(begun, (name) => bound.at('bound', podNameOf(name)));
    await until('all VMs to run', () => names.every((name) => ready.at('ready', name) !== undefined), {
      stepMs: 100,
    });
    // Events are written behind.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    const writes = await audit.since();
    const usage = operator.usage();
    await deleteAll(client, vms, names);
    return {
      perSecond,
      runningMs: [...begun].map(([name, start]) => (ready.at('ready', name) ?? NaN) - start),
      writesPerVm: writes.total / names.length,
      requests: writes.requests,
      cpuMsPerVm: (usage.cpuMs - before) / names.length,
      usage,
    };
  } finally {
    await Promise.all([bound.stop(), ready.stop()]);
    await operator.stop();
  }
}

/** Without an operator. `writes` further ones follow the creation of each pod. */
async function podRound(cluster: SimulatedCluster, kind: Kind, turn: string, writes: number): Promise<Round> {
  const { client } = cluster;
  const names = namesOf(`pod-${kind.name.toLowerCase()}-${turn}`, kind.count);
  const bound = await observe(client, pods, { bound: isPodBound });
  try {
    const load = furtherWrites(client, turn);
    const begun = await createAll(client, pods, names.map(kind.pod), () => load.add(writes));
    const perSecond = await rateOf(begun, (name) => bound.at('bound', name));
    await load.done();
    await deleteAll(client, pods, names);
    return { perSecond, runningMs: [], writesPerVm: 0, requests: {}, cpuMsPerVm: 0, usage: undefined };
  } finally {
    await bound.stop();
  }
}

function namesOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}-${i}`);
}

async function createAll<T extends KubeObject>(
  client: RootClient,
  resource: Resource<T>,
  objects: readonly T[],
  created: () => void = () => undefined,
): Promise<Map<string, number>> {
  const begun = new Map<string, number>();
  await inParallel(objects, creators, async (object) => {
    begun.set(object.metadata?.name ?? '', performance.now());
    await client.create(resource, object);
    created();
  });
  return begun;
}

/** From the first creation to the last binding. */
async function rateOf(
  begun: ReadonlyMap<string, number>,
  boundAt: (name: string) => number | undefined,
): Promise<number> {
  const names = [...begun.keys()];
  await until('all pods to be bound', () => names.every((name) => boundAt(name) !== undefined), {
    stepMs: 100,
  });
  const last = Math.max(...names.map((name) => boundAt(name) ?? NaN));
  return (names.length / (last - Math.min(...begun.values()))) * 1000;
}

interface FurtherWrites {
  add(amount: number): void;
  done(): Promise<void>;
}

/** Of the kinds and the size of svc3's: server-side applies of some 2 kB, and Events. */
function furtherWrites(client: RootClient, turn: string): FurtherWrites {
  const atOnce = 16;
  let owed = 0;
  let count = 0;
  const busy = new Set<Promise<unknown>>();
  const text = 'x'.repeat(2_000);
  const one = async (): Promise<void> => {
    const number = count++;
    if (number % 5 < 2) {
      const name = `load-${number % 500}`;
      const object: ConfigMap = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name, namespace },
        data: { text, turn, number: `${number}` },
      };
      await client.apply(configMaps, object);
      return;
    }
    const regarding = { kind: 'ConfigMap', apiVersion: 'v1', name: `load-${number}`, namespace };
    await client.create(events, {
      metadata: { generateName: 'load-', namespace },
      eventTime: `${new Date().toISOString().slice(0, -1)}000Z`,
      reportingController: 'bench',
      reportingInstance: 'bench',
      type: 'Normal',
      reason: 'Load',
      action: 'Load',
      note: `write ${number}`,
      regarding,
    } as KubeObject);
  };
  const pump = (): void => {
    while (owed >= 1 && busy.size < atOnce) {
      owed -= 1;
      const work: Promise<unknown> = one().finally(() => {
        busy.delete(work);
        pump();
      });
      busy.add(work);
    }
  };
  return {
    add(amount) {
      owed += amount;
      pump();
    },
    async done() {
      owed = 0;
      await Promise.all(busy);
    },
  };
}

function rowOf({ name, count }: Kind, made: Round, bare: Round | undefined): object {
  const ms = (of: number) => Math.round(percentile(made.runningMs, of));
  return {
    kind: name,
    count,
    'svc3/s': rounded(made.perSecond, 1),
    'kube-scheduler/s': rounded(bare?.perSecond ?? NaN, 1),
    'P50 ms': ms(0.5),
    'P95 ms': ms(0.95),
    'P99 ms': ms(0.99),
    'writes/VM': rounded(made.writesPerVm),
    'CPU ms/VM': rounded(made.cpuMsPerVm, 1),
    'RSS MB': rounded(made.usage?.rssMB ?? NaN, 1),
    requests: Object.entries(made.requests)
      .map(([verb, amount]) => `${verb} ${amount}`)
      .join(', '),
  };
}
