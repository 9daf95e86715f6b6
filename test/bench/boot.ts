import { join } from 'node:path';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { fullClusterTools } from '../../src/localcluster/cluster/cluster.ts';
import { createKubectl, type Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { asOperator } from '../support/asoperator.ts';
import { type BareQemu, bareQemu, parentOf, qemuOf, secondsSinceBoot, startOf } from './bareqemu.ts';
import { type Benchmark, median, type Outcome, rounded, size } from './figures.ts';
import { clusterSetting, onLocalCluster } from './localcluster.ts';
import { until } from './until.ts';
import { type SshEndpoint, untilBanner } from './sshbanner.ts';

/** Real VMs on a local cluster; the three ways take turns. */
export const benchmark: Benchmark = {
  about: 'apply → SSH through svc3, beside the same pod by hand and beside bare QEMU (needs root)',
  settings: {
    SVC3_BENCH_BOOTS: '6 boots each way; a multiple of 3, so that each way comes first equally often',
    ...clusterSetting,
  },
  measure: () => onLocalCluster(measureOn),
};

const namespace = 'svc3-default';
const vmName = 'bench-boot';
const podName = `svc3-vm-${vmName}`;
const byHand = 'bench-by-hand';

interface World {
  readonly kubectl: Kubectl;
  /** As the operator, who alone may make what a VM's pod is. */
  readonly byOperator: Kubectl;
  readonly endpoint: SshEndpoint;
  readonly pod: object;
  readonly qemu: BareQemu;
}

/** Milliseconds to the SSH banner. */
interface Boot {
  readonly fromApply: number;
  readonly fromRunner: number;
  readonly fromQemu: number;
}

async function measureOn(places: Places): Promise<Outcome> {
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  const { signal } = new AbortController();
  const kubectl = createKubectl(tools, places.kubeconfig, signal);
  await remove(kubectl);
  try {
    const byOperator = createKubectl(tools, places.kubeconfig, signal, [asOperator]);
    const world = { ...(await prepare(places, kubectl)), byOperator };
    await bootByHand(world);
    await world.qemu.boot();
    const vms: Boot[] = [];
    const pods: Boot[] = [];
    const bare: number[] = [];
    for (let turn = 0; turn < Math.max(1, size('SVC3_BENCH_BOOTS', 6)); turn++) {
      const ways = [
        async () => vms.push(await bootVm(world)),
        async () => pods.push(await bootByHand(world)),
        async () => bare.push(await world.qemu.boot()),
      ];
      // Each way comes first, second and last in turn.
      for (let i = 0; i < ways.length; i++) await ways[(turn + i) % ways.length]?.();
    }
    return outcome(vms, pods, bare);
  } finally {
    await remove(kubectl);
  }
}

function outcome(vms: readonly Boot[], pods: readonly Boot[], bare: readonly number[]): Outcome {
  const of = (boots: readonly Boot[], from: keyof Boot) => boots.map((boot) => boot[from]);
  const row = (what: string, values: readonly number[]) => ({
    what,
    'median ms': Math.round(median(values)),
    'least ms': Math.round(Math.min(...values)),
    'most ms': Math.round(Math.max(...values)),
  });
  const ratio = (a: readonly number[], b: readonly number[]) => rounded(median(a) / median(b), 3);
  const inside = of([...vms, ...pods], 'fromQemu');
  return {
    rows: [
      row('VM through svc3, apply → SSH', of(vms, 'fromApply')),
      row('the same pod by hand, apply → SSH', of(pods, 'fromApply')),
      row('in the pod, start of the runner → SSH', of([...vms, ...pods], 'fromRunner')),
      row('in the pod, start of QEMU → SSH', inside),
      row('bare QEMU, start → SSH', bare),
    ],
    figures: [
      {
        what: 'through svc3 beside the pod by hand',
        value: ratio(of(vms, 'fromApply'), of(pods, 'fromApply')),
        atMost: 1.1,
      },
      { what: 'QEMU in the pod beside bare QEMU', value: ratio(inside, bare), atMost: 1.05 },
      {
        what: 'the whole container beside bare QEMU',
        value: ratio(of([...vms, ...pods], 'fromRunner'), bare),
      },
    ],
  };
}

/** The warm-up: a VM whose address, pod, disk and arguments the others take. */
async function prepare(places: Places, kubectl: Kubectl): Promise<Omit<World, 'byOperator'>> {
  await kubectl.apply(vmObject());
  const read = (path: string) =>
    kubectl('get', 'vms.svc3.dev', '-n', namespace, vmName, '-o', `jsonpath={${path}}`);
  const address = async () => `${await read('.status.ip')}:${await read('.status.ports.ssh')}`;
  await until('an address of the VM', async () => /^\S+:\d+$/.test(await address()), { stepMs: 250 });
  const endpoint = { through: join(places.state, 'run/connect.sock'), address: await address() };
  await untilBanner(endpoint);
  const made = JSON.parse(await kubectl('get', 'pod', '-n', namespace, podName, '-o', 'json')) as PodObject;
  const qemu = await bareQemu(qemuOf(vmName));
  await remove(kubectl);
  return { kubectl, endpoint, pod: podByHand(made), qemu };
}

function vmObject(): object {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: vmName, namespace },
    spec: { image: `${registryHost}/svc3/guest:latest`, cpu: 1, memory: '256Mi' },
  };
}

interface PodObject {
  metadata: { labels?: object; annotations?: object };
  spec: Record<string, unknown>;
}

/** What somebody would write who wanted the same: to be scheduled, and nobody's. */
function podByHand({ metadata, spec }: PodObject): object {
  const { nodeName: _nodeName, ...rest } = spec;
  const { labels, annotations } = metadata;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: byHand, namespace, labels, annotations },
    spec: rest,
  };
}

async function bootVm({ kubectl, endpoint }: World): Promise<Boot> {
  return timed(kubectl, endpoint, vmObject());
}

async function bootByHand({ byOperator, endpoint, pod }: World): Promise<Boot> {
  return timed(byOperator, endpoint, pod);
}

async function timed(kubectl: Kubectl, endpoint: SshEndpoint, object: object): Promise<Boot> {
  const began = secondsSinceBoot();
  // The banner may be there before kubectl has ended; who is not applied is noticed below.
  await Promise.all([kubectl.apply(object), untilBanner(endpoint)]);
  const now = secondsSinceBoot();
  const qemu = qemuOf(vmName);
  const since = (start: number) => (now - start) * 1000;
  const boot = {
    fromApply: since(began),
    fromRunner: since(startOf(parentOf(qemu))),
    fromQemu: since(startOf(qemu)),
  };
  await remove(kubectl);
  return boot;
}

/** Waits until nothing is left, so that the next one has the machine for itself. */
async function remove(kubectl: Kubectl): Promise<void> {
  const flags = ['-n', namespace, '--ignore-not-found', '--wait', '--timeout=120s'];
  await kubectl('delete', 'vms.svc3.dev', vmName, ...flags);
  await kubectl('delete', 'pod', podName, ...flags);
  await kubectl('delete', 'pod', byHand, ...flags);
}
