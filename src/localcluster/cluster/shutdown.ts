/** The end of a cluster in order: its guests shut down before their nodes go. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cgroupProcesses, type ClusterIdentity } from '../shared/cgroup.ts';
import { type Places, startTimeOf } from '../shared/state.ts';

/** A guest that takes longer is cut off, in milliseconds. */
const longestMs = 30_000;

/**
 * Asks the runner of every VM to end, as the kubelet does when a pod ends, and waits until all have, `signal` is aborted,
 * or 30 s are over. Guests inside of an emulated node are not reached.
 */
export async function shutDownGuests(places: Places, signal: AbortSignal): Promise<void> {
  // First those that would start them again.
  await endAll(await commandLinesWith(join(places.state, 'nodes')), 'SIGKILL', signal);
  await endAll(await runnersOf(places), 'SIGTERM', signal);
}

/** The kubelets: each is told where its settings are. */
async function commandLinesWith(nodes: string): Promise<number[]> {
  const found: number[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    const line = await commandLine(Number(entry));
    if (line.includes(`--config=${nodes}/`) && line.includes('/kubelet.json')) found.push(Number(entry));
  }
  return found;
}

/** The first processes of VM pods. */
async function runnersOf(cluster: ClusterIdentity): Promise<number[]> {
  const found: number[] = [];
  for (const pid of await cgroupProcesses(cluster)) {
    const [isRunner, isFirst] = await Promise.all([
      commandLine(pid).then((line) => line.includes('/app/runner.js')),
      isFirstOfNamespace(pid),
    ]);
    if (isRunner && isFirst) found.push(pid);
  }
  return found;
}

async function commandLine(pid: number): Promise<string> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ');
}

async function isFirstOfNamespace(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return /^NSpid:.*\s1$/m.test(status);
}

async function endAll(pids: readonly number[], how: NodeJS.Signals, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + longestMs;
  const since = new Map<number, string | undefined>();
  for (const pid of pids) since.set(pid, await startTimeOf(pid));
  const left = async (): Promise<number[]> => {
    const now = await Promise.all(pids.map((pid) => startTimeOf(pid)));
    return pids.filter((pid, index) => now[index] !== undefined && now[index] === since.get(pid));
  };
  for (const pid of await left()) kill(pid, how);
  while ((await left()).length > 0 && !signal.aborted && performance.now() < deadline) await delay(30);
}

function kill(pid: number, how: NodeJS.Signals): void {
  try {
    process.kill(pid, how);
  } catch {
    // It is gone already.
  }
}
