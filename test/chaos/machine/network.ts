/** Cutting off a node, a pod, or a port of the control plane; each function resolves with what joins it again. */
import { run } from '../../../src/localcluster/host/command.ts';
import { insideNode } from '../../../src/localcluster/shared/sandbox.ts';
import type { PodProcess } from '../record/guests.ts';
import { inSandbox, type Machine } from './node.ts';

export type Undo = () => Promise<void>;

/** Neither kube-apiserver nor registry nor another node reaches it, nor it them. */
export async function cutNode(machine: Machine, node: string): Promise<Undo> {
  const link = `v${node.replace('node', '')}`;
  await inSandbox(machine, ['ip', 'link', 'set', link, 'down']);
  return async () => void (await inSandbox(machine, ['ip', 'link', 'set', link, 'up']));
}

interface Link {
  readonly ifindex: number;
  readonly ifname: string;
  readonly link_index?: number;
}

/** The node's end of the pod's cable: so the pod keeps its addresses and routes. */
export async function cutPod({ components }: Machine, { pid, node }: PodProcess): Promise<Undo> {
  const own = await links(['nsenter', '-t', String(pid), '-n', 'ip', '-j', 'link', 'show', 'eth0']);
  const peer = own[0]?.link_index;
  const onNode = (words: readonly string[]): readonly [string, ...string[]] =>
    insideNode(components.sandboxPid, components.nodePid(node), ['ip', ...words]);
  const link = (await links(onNode(['-j', 'link', 'show']))).find(({ ifindex }) => ifindex === peer);
  if (link === undefined) throw new Error(`the cable of process ${pid} was not found on ${node}`);
  const set = async (state: 'up' | 'down'): Promise<void> => {
    const [program, ...parameters] = onNode(['link', 'set', link.ifname, state]);
    await run(program, parameters);
  };
  await set('down');
  // A pod that has ended meanwhile took its cable along.
  return () => set('up').catch(() => undefined);
}

async function links([program, ...parameters]: readonly [string, ...string[]]): Promise<Link[]> {
  return JSON.parse(await run(program, parameters)) as Link[];
}

/** Nodes and pods do not reach the port any more; the host, and so who records, still does. */
export async function cutPort(machine: Machine, port: number): Promise<Undo> {
  const table = `chaos${port}`;
  const rules = [
    `add table inet ${table}`,
    `add chain inet ${table} in { type filter hook input priority -100; }`,
    `add rule inet ${table} in iifname "br0" tcp dport ${port} drop`,
  ];
  await inSandbox(machine, ['nft', rules.join('; ')]);
  return async () => void (await inSandbox(machine, ['nft', `delete table inet ${table}`]));
}
