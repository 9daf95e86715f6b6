import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { images, vmPools, vms } from '../../src/api/resources.ts';
import type { Submitted } from '../../src/api/object.ts';
import type { Image } from '../../src/api/image.ts';
import type { Vm } from '../../src/api/vm.ts';
import type { VmPool } from '../../src/api/vmpool.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { fullClusterTools } from '../../src/localcluster/cluster/cluster.ts';
import { createKubectl, type Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { closeApi, namespace, openApi, type Post } from './apiclient.ts';
import { type Benchmark, median, type Outcome, percentile, rounded, size } from './figures.ts';
import { clusterSetting, onLocalCluster } from './localcluster.ts';
import { until } from './until.ts';
import { type SshEndpoint, untilBanner } from './sshbanner.ts';

/** Real VMs on a local cluster: from an image with memory beside the same disk, and from a pool. */
export const benchmark: Benchmark = {
  about:
    'deploy → SSH from an image with memory beside the same disk, and from a pool of guests (needs root)',
  settings: {
    SVC3_BENCH_DEPLOYS: '5 deploys each way',
    SVC3_BENCH_CLAIMS: '20 claims, one after the other',
    ...clusterSetting,
  },
  measure: () => onLocalCluster(measureOn),
};

const name = 'bench-warm';
const original = `${name}-original`;
const vmName = `${name}-vm`;
const pool = `${name}-pool`;
const plainImage = `${name}-disk`;
const warmImage = `${name}-memory`;
const claimName = (turn: number) => `${name}-claim-${turn}`;
/** Two ways of the same VM differ in nothing else. */
const shape = { cpu: 1, memory: '256Mi' } as const;
/** What a boot does last, and what follows a change of state, is not the next one's. */
const restMs = 5_000;

interface World {
  readonly client: RootClient;
  readonly kubectl: Kubectl;
  endpoint(address: string): SshEndpoint;
}

async function measureOn(places: Places): Promise<Outcome> {
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  const kubectl = createKubectl(tools, places.kubeconfig, new AbortController().signal);
  const client = createClient(await loadKubeconfig(places.kubeconfig), { userAgent: 'bench' });
  const through = join(places.state, 'run/connect.sock');
  const world: World = { client, kubectl, endpoint: (address) => ({ through, address }) };
  await remove(kubectl);
  try {
    await saveImages(world);
    const deploys = await deploysOf(world);
    const claims = await claimsOf(world, await openApi(places, { kubectl, client, account: name }));
    return outcome(deploys, claims);
  } finally {
    await client.close();
    await remove(kubectl);
  }
}

interface Deploys {
  readonly warm: number[];
  readonly cold: number[];
}

/** Milliseconds from the request. */
interface Claims {
  readonly reply: number[];
  readonly banner: number[];
}

function outcome({ warm, cold }: Deploys, { reply, banner }: Claims): Outcome {
  const row = (what: string, values: readonly number[]) => ({
    what,
    'P50 ms': Math.round(median(values)),
    'least ms': Math.round(Math.min(...values)),
    'P90 ms': Math.round(percentile(values, 0.9)),
    'most ms': Math.round(Math.max(...values)),
  });
  return {
    rows: [
      row('from memory, create → SSH', warm),
      row('the same disk, create → SSH', cold),
      row('claim, POST → reply Running', reply),
      row('claim, POST → SSH', banner),
    ],
    figures: [
      {
        what: 'deploy → SSH from memory beside a boot',
        value: rounded(median(warm) / median(cold), 3),
        atMost: 0.35,
      },
      { what: 'claim, POST → SSH, ms P50', value: Math.round(median(banner)), atMost: 200 },
    ],
  };
}

function vmObject(vm: string, image: string): Submitted<Vm> {
  const metadata = { name: vm, namespace };
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata,
    spec: { image, ...shape, powerState: 'Running' },
  };
}

async function addressOf({ client }: World, vm: string): Promise<string> {
  let address = '';
  const isThere = async () => {
    const { status } = await client.get(vms, vm, namespace);
    address = `${status?.ip}:${status?.ports?.ssh}`;
    return /^\S+:[1-9]\d*$/.test(address);
  };
  await until(`an address of VM ${vm}`, isThere, { stepMs: 10 });
  return address;
}

/** One guest, saved twice at rest: with its memory, and its disk alone. */
async function saveImages(world: World): Promise<void> {
  const { client } = world;
  await client.create(vms, vmObject(original, `${registryHost}/svc3/guest:latest`));
  await untilBanner(world.endpoint(await addressOf(world, original)));
  await until(
    'the first VM',
    async () => conditionOf(await client.get(vms, original, namespace), 'Ready') === 'True',
  );
  await delay(restMs);
  for (const [image, mode] of [
    [plainImage, 'Save'],
    [warmImage, 'SaveWithMemory'],
  ] as const) {
    const metadata = { name: image, namespace };
    const spec: Image['spec'] = { source: { vm: { name: original, mode } } };
    await client.create(images, { apiVersion: 'svc3.dev/v1', kind: 'Image', metadata, spec });
    const isReady = async () => conditionOf(await client.get(images, image, namespace), 'Ready') === 'True';
    await until(`Image ${image}`, isReady, { stepMs: 200 });
  }
  await removeVm(world, original);
}

function conditionOf({ status }: Vm | Image | VmPool, type: string): string | undefined {
  return status?.conditions?.find((one) => one.type === type)?.status;
}

async function deploysOf(world: World): Promise<Deploys> {
  const taken: Deploys = { warm: [], cold: [] };
  const ways = [
    [warmImage, taken.warm],
    [plainImage, taken.cold],
  ] as const;
  for (let turn = -1; turn < Math.max(1, size('SVC3_BENCH_DEPLOYS', 5)); turn += 1)
    for (const [image, into] of turn % 2 === 0 ? ways : ways.toReversed()) {
      const tookMs = await deployOnce(world, image);
      // The first of each has its image pulled.
      if (turn >= 0) into.push(tookMs);
    }
  return taken;
}

async function deployOnce(world: World, image: string): Promise<number> {
  const { client } = world;
  const began = performance.now();
  await client.create(vms, vmObject(vmName, image));
  await untilBanner(world.endpoint(await addressOf(world, vmName)));
  const tookMs = performance.now() - began;
  const isSaid = async () => {
    const vm = await client.get(vms, vmName, namespace);
    if (conditionOf(vm, 'Ready') !== 'True') return false;
    const isWarm = conditionOf(vm, 'WarmStart') === 'True';
    if (isWarm !== (image === warmImage)) throw new Error(`VM of ${image} did not start as it was to`);
    return true;
  };
  await until('how the guest was started', isSaid, { stepMs: 100 });
  await removeVm(world, vmName);
  await delay(restMs);
  return tookMs;
}

/** Each finds the pool full. */
async function claimsOf(world: World, post: Post): Promise<Claims> {
  const { client } = world;
  const minIdle = 2;
  const template = { image: warmImage, ...shape } as const;
  await client.create(vmPools, {
    apiVersion: 'svc3.dev/v1',
    kind: 'VMPool',
    metadata: { name: pool, namespace },
    spec: { template, minIdle, maxSize: 4, standby: 'Suspended', serveConfig: false },
  });
  const isFull = async () => (await client.get(vmPools, pool, namespace)).status?.idle === minIdle;
  const claims: Claims = { reply: [], banner: [] };
  for (let turn = -2; turn < Math.max(1, size('SVC3_BENCH_CLAIMS', 20)); turn += 1) {
    await until('a full pool', isFull, { stepMs: 200 });
    await delay(restMs);
    const vm = claimName(turn + 2);
    const began = performance.now();
    const reply = (await post('vms', { name: vm, pool })) as { ip?: string; ssh?: number; status?: string };
    const replied = performance.now();
    await untilBanner(world.endpoint(`${reply.ip}:${reply.ssh}`));
    const greeted = performance.now();
    if (reply.status !== 'Running') throw new Error(`VM ${vm} is ${reply.status}`);
    // The first ones open connections.
    if (turn >= 0) {
      claims.reply.push(replied - began);
      claims.banner.push(greeted - began);
    }
    await removeVm(world, vm);
  }
  return claims;
}

async function removeVm({ kubectl }: World, vm: string): Promise<void> {
  await kubectl('delete', 'vms.svc3.dev', vm, '-n', namespace, '--wait', '--timeout=120s');
}

/** Waits until nothing is left. */
async function remove(kubectl: Kubectl): Promise<void> {
  const flags = ['-n', namespace, '--ignore-not-found', '--wait', '--timeout=120s'];
  await kubectl('delete', 'vmpools.svc3.dev', pool, ...flags);
  const claims = Array.from({ length: size('SVC3_BENCH_CLAIMS', 20) + 2 }, (_, turn) => claimName(turn));
  await kubectl('delete', 'vms.svc3.dev', original, vmName, ...claims, ...flags);
  await kubectl('delete', 'images.svc3.dev', plainImage, warmImage, ...flags);
  await closeApi(kubectl, name);
}
