import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { registryHost } from '../../src/localcluster/shared/addresses.ts';
import { fullClusterTools } from '../../src/localcluster/cluster/cluster.ts';
import { createKubectl, type Kubectl } from '../../src/localcluster/shared/kubectl.ts';
import { insideSandbox } from '../../src/localcluster/shared/sandbox.ts';
import type { Command } from '../../src/localcluster/host/process.ts';
import { type Places, readReport } from '../../src/localcluster/shared/state.ts';
import { buildTools } from '../../src/localcluster/host/tools.ts';
import { temporaryFolder } from '../support/controlplane.ts';
import { guestSsh, guestSshLocally } from '../support/guestssh.ts';
import { closeApi, logIn, namespace } from './apiclient.ts';
import { bareQemu, qemuOf } from './bareqemu.ts';
import { type Benchmark, median, type Outcome, rounded, size } from './figures.ts';
import { clusterSetting, onLocalCluster } from './localcluster.ts';

/** A guest's TCP stream by every way to it; the ways take turns. */
export const benchmark: Benchmark = {
  about: 'a stream from and to a guest: tunnel, port on the pod’s IP, bare QEMU (needs root)',
  settings: {
    SVC3_BENCH_STREAMS: '7 streams each way and direction',
    SVC3_BENCH_STREAM_MIB: '48 MiB each',
    ...clusterSetting,
  },
  measure: () => onLocalCluster(measureOn),
};

const vmName = 'bench-network';
const account = 'bench-network';
const sends = 9000;
const takes = 9001;
const client = fileURLToPath(new URL('streamclient.ts', import.meta.url));
const svc3 = fileURLToPath(new URL('../../src/bin/svc3.ts', import.meta.url));
const execute = promisify(execFile);

type Direction = 'in' | 'out';
type Way = 'tunnel' | 'port' | 'bare';
/** MiB/s of one stream. */
type Stream = (direction: Direction) => Promise<number>;
type Rates = Record<Way, Record<Direction, number[]>>;

const portOf: Record<Direction, number> = { in: sends, out: takes };

/** What the guest does at its two ports, for as long as it runs. */
function servers(bytes: number): string {
  const take = `printf '#!/bin/sh\\nhead -c ${bytes} | wc -c\\n' > /tmp/take; chmod +x /tmp/take`;
  const serve = (port: number, what: string) => `(nc -ll -p ${port} -e ${what} </dev/null >/dev/null 2>&1 &)`;
  return `${take}; ${serve(sends, `head -c ${bytes} /dev/zero`)}; ${serve(takes, '/tmp/take')}`;
}

async function measureOn(places: Places): Promise<Outcome> {
  const tools = await buildTools(fullClusterTools, { cacheDir: places.cache });
  const kubectl = createKubectl(tools, places.kubeconfig, new AbortController().signal);
  const bytes = Math.max(1, size('SVC3_BENCH_STREAM_MIB', 48)) * 1024 * 1024;
  const children: ChildProcess[] = [];
  await remove(kubectl);
  try {
    const env = await environmentOf(places, kubectl);
    const tunnels = { in: await tunnel(env, sends, children), out: await tunnel(env, takes, children) };
    const podIp = await bootVm(places, kubectl, bytes);
    const { sandboxPid = 0 } = (await readReport(places)) ?? {};
    const bare = await bareQemu(qemuOf(vmName));
    return await bare.whileUp(async ({ ports }) => {
      await guestSshLocally(ports.get(22) ?? 0, servers(bytes));
      const ways: Record<Way, Stream> = {
        tunnel: (to) => stream(['127.0.0.1', tunnels[to]], to, bytes),
        port: (to) => stream([podIp, portOf[to]], to, bytes, (line) => insideSandbox(sandboxPid, line)),
        bare: (to) => stream(['127.0.0.1', ports.get(portOf[to]) ?? 0], to, bytes),
      };
      return outcome(await inTurns(ways));
    });
  } finally {
    for (const child of children) child.kill();
    await remove(kubectl);
    await closeApi(kubectl, account);
  }
}

/** Of `svc3` for somebody who is logged in. */
async function environmentOf(places: Places, kubectl: Kubectl): Promise<NodeJS.ProcessEnv> {
  const client = createClient(await loadKubeconfig(places.kubeconfig));
  try {
    const { port, token, caPem } = await logIn(places, { kubectl, client, account });
    const home = temporaryFolder();
    const caFile = join(home, 'ca.pem');
    await writeFile(caFile, caPem);
    await mkdir(join(home, 'svc3'));
    const config = { baseUrl: `https://127.0.0.1:${port}`, caFile, token };
    await writeFile(join(home, 'svc3/config.json'), JSON.stringify(config), { mode: 0o600 });
    return { ...process.env, XDG_CONFIG_HOME: home, KUBECONFIG: places.kubeconfig };
  } finally {
    await client.close();
  }
}

async function inTurns(ways: Record<Way, Stream>): Promise<Rates> {
  const names = Object.keys(ways) as Way[];
  const rates: Rates = { tunnel: both(), port: both(), bare: both() };
  // The first turn only warms up.
  for (let turn = -1; turn < Math.max(1, size('SVC3_BENCH_STREAMS', 7)); turn += 1)
    for (let i = 0; i < names.length; i += 1)
      for (const direction of ['in', 'out'] as const) {
        const name = names[(turn + 1 + i) % names.length] as Way;
        const rate = await ways[name](direction);
        if (turn >= 0) rates[name][direction].push(rate);
      }
  return rates;
}

function both(): Record<Direction, number[]> {
  return { in: [], out: [] };
}

function outcome(rates: Rates): Outcome {
  const says: Record<Direction, string> = { in: 'from the guest', out: 'to the guest' };
  const titles: Record<Way, string> = {
    tunnel: 'svc3 vm tunnel',
    port: 'the port on the pod’s IP',
    bare: 'a forwarded port of bare QEMU',
  };
  const directions = ['in', 'out'] as const;
  const ratio = (of: Way, beside: Way, to: Direction) =>
    rounded(median(rates[of][to]) / median(rates[beside][to]));
  return {
    rows: (Object.keys(titles) as Way[]).flatMap((way) =>
      directions.map((to) => ({
        what: `${titles[way]}, ${says[to]}`,
        'median MiB/s': rounded(median(rates[way][to]), 1),
        'least MiB/s': rounded(Math.min(...rates[way][to]), 1),
        'most MiB/s': rounded(Math.max(...rates[way][to]), 1),
      })),
    ),
    figures: directions.flatMap((to) => [
      { what: `tunnel beside the port, ${says[to]}`, value: ratio('tunnel', 'port', to), atLeast: 0.6 },
      { what: `port beside bare QEMU, ${says[to]}`, value: ratio('port', 'bare', to) },
    ]),
  };
}

async function stream(
  [host, port]: readonly [host: string, port: number],
  direction: Direction,
  bytes: number,
  inside: (line: Command) => Command = (line) => line,
): Promise<number> {
  const line: Command = [process.execPath, client, host, String(port), direction, String(bytes)];
  const [first, ...rest] = inside(line);
  const { stdout } = await execute(first, rest, { timeout: 300_000 });
  return bytes / 1024 / 1024 / (Number(stdout) / 1000);
}

/** The port of `svc3 vm tunnel --listen`, a process that opens a stream per connection and is added to `children`. */
async function tunnel(env: NodeJS.ProcessEnv, port: number, children: ChildProcess[]): Promise<number> {
  const line = [svc3, 'vm', 'tunnel', vmName, String(port), '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, line, { env, stdio: ['ignore', 'pipe', 'inherit'] });
  children.push(child);
  for await (const text of createInterface(child.stdout)) {
    const listening = /:(\d+);/.exec(text);
    if (listening !== null) return Number(listening[1]);
  }
  throw new Error('svc3 vm tunnel ended');
}

/** The pod's IP of a VM whose servers listen. */
async function bootVm(places: Places, kubectl: Kubectl, bytes: number): Promise<string> {
  await kubectl.apply({
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name: vmName, namespace },
    spec: {
      image: `${registryHost}/svc3/guest:latest`,
      cpu: 1,
      memory: '256Mi',
      ports: [sends, takes].map((guestPort) => ({ guestPort })),
    },
  });
  await kubectl('wait', '-n', namespace, `vms.svc3.dev/${vmName}`, '--for=condition=Ready', '--timeout=180s');
  const vm = JSON.parse(await kubectl('get', 'vms.svc3.dev', '-n', namespace, vmName, '-o', 'json')) as {
    status: { ip: string; podName: string; ports: { ssh: number } };
  };
  await guestSsh(places, { ip: vm.status.ip, port: vm.status.ports.ssh }, servers(bytes));
  return kubectl('get', 'pod', '-n', namespace, vm.status.podName, '-o', 'jsonpath={.status.podIP}');
}

async function remove(kubectl: Kubectl): Promise<void> {
  const flags = ['-n', namespace, '--ignore-not-found', '--wait', '--timeout=120s'];
  await kubectl('delete', 'vms.svc3.dev', vmName, ...flags);
}
