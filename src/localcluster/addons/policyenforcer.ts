/** Enforces the network policies of a cluster on all of its nodes, as the agent of a network plugin does on each. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Resource } from '../../api/object.ts';
import { messageOf } from '../../errors.ts';
import { run } from '../host/command.ts';
import { type SandboxNode, insideNode } from '../shared/sandbox.ts';
import { type NetworkPolicy, type World, rulesetOf } from './policyrules.ts';

export const networkPolicies: Resource<NetworkPolicy> = {
  group: 'networking.k8s.io',
  version: 'v1',
  plural: 'networkpolicies',
  kind: 'NetworkPolicy',
  namespaced: true,
};

/** Begins to watch what policies depend on and calls back at every change. */
export type WatchWorld = (onChange: () => void) => {
  /** Resolves when the whole world is known. */
  synced(): Promise<void>;
  world(): World;
};

/** Nodes by the process that holds their namespaces, as the sandbox sees it. */
export interface Machines {
  readonly sandboxPid: number;
  readonly nodePids: readonly number[];
}

/** After a failure, in milliseconds. */
const retryMs = 1_000;

/**
 * Lets a node's rules see what stays on its bridge: pods of one node reach each other without being routed. The setting is
 * of the node's network namespace.
 */
export async function filterBridge(machine: SandboxNode): Promise<void> {
  const file = '/proc/sys/net/bridge/bridge-nf-call-iptables';
  const script = `[ -e ${file} ] || modprobe br_netfilter; echo 1 > ${file}`;
  const [program, ...parameters] = machine.inside(['sh', '-c', script]);
  try {
    await run(program, parameters);
  } catch (cause) {
    const message = `network policies need the kernel module br_netfilter: ${messageOf(cause)}`;
    throw new Error(message, { cause });
  }
}

/** Keeps the rules of all nodes true to the world; never resolves. Rules stay as they are while the world is unknown. */
export async function enforcePolicies(
  watch: WatchWorld,
  machines: Machines,
  log: (text: string) => void,
): Promise<never> {
  let changed = Promise.withResolvers<void>();
  const { synced, world } = watch(() => changed.resolve());
  await synced();
  let applied = '';
  for (;;) {
    // Before the world is read: a change that comes from now on is another pass.
    changed = Promise.withResolvers<void>();
    const ruleset = rulesetOf(world());
    try {
      if (ruleset !== applied) await applyToAll(machines, ruleset);
      applied = ruleset;
      await changed.promise;
    } catch (error) {
      log(messageOf(error));
      await delay(retryMs);
    }
  }
}

async function applyToAll({ sandboxPid, nodePids }: Machines, ruleset: string): Promise<void> {
  await Promise.all(
    nodePids.map((pid) => {
      const [program, ...parameters] = insideNode(sandboxPid, pid, ['nft', '-f', '-']);
      return run(program, parameters, { input: ruleset });
    }),
  );
}
