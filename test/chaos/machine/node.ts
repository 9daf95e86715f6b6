/** A node as a machine: all of its processes, and turning it off and on again. */
import { readdirSync, readlinkSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { allNodes } from '../../../src/localcluster/shared/addresses.ts';
import { run } from '../../../src/localcluster/host/command.ts';
import { nodeFolder } from '../../../src/localcluster/node/node.ts';
import { addNode, insideSandbox } from '../../../src/localcluster/shared/sandbox.ts';
import type { Places } from '../../../src/localcluster/shared/state.ts';
import type { PodProcesses } from '../record/guests.ts';
import type { Components } from './components.ts';
import { signal } from './signals.ts';

export interface Machine {
  readonly places: Places;
  readonly components: Components;
  readonly pods: PodProcesses;
}

/** Everything that runs on a node: its pods, and what shares the mounts of the process that holds it. */
export function processesOf({ components, pods }: Machine, node: string): number[] {
  const holder = components.holderOf(node);
  const mounts = holder === undefined ? undefined : mountsOf(holder);
  const all = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
  const own = mounts === undefined ? [] : all.filter((entry) => mountsOf(Number(entry)) === mounts);
  const inPods = pods.scan().filter((process) => process.node === node);
  return [...new Set([...own.map(Number), ...inPods.map(({ pid }) => pid)])];
}

function mountsOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

/** Pulls the plug: every process of the node at once, with its network and whatever it had only in memory. */
export async function turnOff(machine: Machine, node: string): Promise<void> {
  // The holder last: by it the others are found, and something may be being started at that moment.
  const holder = machine.components.holderOf(node);
  for (;;) {
    const others = processesOf(machine, node).filter((pid) => pid !== holder);
    if (others.length === 0) break;
    for (const pid of others) signal(pid, 'SIGKILL');
    await delay(50);
  }
  if (holder !== undefined) signal(holder, 'SIGKILL');
  // The link ends with the node's network namespace, a moment after its last process.
  const link = `v${node.replace('node', '')}`;
  await inSandbox(machine, ['sh', '-c', `ip link del ${link} 2> /dev/null; true`]);
}

/** Boots it again from what it had on its disk. */
export async function turnOn({ places, components }: Machine, node: string): Promise<void> {
  const addresses = allNodes(9).find(({ name }) => name === node);
  if (addresses === undefined) throw new Error(`there is no node ${node}`);
  const { machine } = await addNode(components.sandboxPid, addresses, nodeFolder(places.state, addresses));
  components.setNodePid(node, machine.pid);
  for (const name of ['containerd', 'kube-proxy', 'kubelet']) components.start(`${node} ${name}`);
}

export async function inSandbox(
  { components }: Pick<Machine, 'components'>,
  command: readonly [string, ...string[]],
): Promise<string> {
  const [program, ...parameters] = insideSandbox(components.sandboxPid, command);
  return run(program, parameters);
}
