/**
 * The way from the host to the addresses of a cluster's nodes. All clusters use the same addresses, so one at a time has it:
 * a veth pair between the host and the sandbox, with routes on the host. It ends with the sandbox, however that ends, because
 * a veth goes with the network namespace of its peer.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { nodeRange } from '../shared/addresses.ts';
import { messageOf } from '../../errors.ts';
import { run } from '../host/command.ts';
import { insideSandbox } from '../shared/sandbox.ts';
import type { HostAccess, Places } from '../shared/state.ts';

/** The host's end; one name for all clusters, so that the kernel gives it to one of them. */
export const hostLink = 'svc3-host';
const hostEnd = '10.231.255.2';
const sandboxEnd = '10.231.255.1';

/** Of all clusters' nodes and links. Pods and Services stay out: nobody on the host dials them, and a host may have networks of its own there. */
export const hostLinkRange = '10.231.0.0/16';

/**
 * Makes the addresses of nodes unreachable on the host: without a route of their own, packets for them would leave the machine by
 * the default route. A more specific route, such as that of the link, comes first. Each state has routes of its own, told
 * apart by their metric, so that the last one to be purged takes the last route away.
 */
async function protectRange(places: Places): Promise<void> {
  await ip('route', 'replace', 'unreachable', hostLinkRange, ...metricOf(places));
}

/** Takes the route of `protectRange` away; it is no fault when there is none. */
export async function releaseRange(places: Places): Promise<void> {
  await ip('route', 'del', 'unreachable', hostLinkRange, ...metricOf(places)).catch(() => undefined);
}

/** Tells a state from others, also of the same name in another user's folder. */
function stateNumber({ state }: Places): number {
  return createHash('sha256').update(state).digest().readUInt32BE(0) % 100_000_000;
}

/** Below every metric that an administrator or a daemon would choose; the kernel's own last resort is 2^32 - 1. */
function metricOf(places: Places): string[] {
  return ['metric', String(4_000_000_000 + stateNumber(places))];
}

/** What the link is labelled with while the cluster has it. */
function aliasOf(places: Places): string {
  return `${places.name} ${stateNumber(places)}`;
}

async function holder(): Promise<string | undefined> {
  const alias = await readFile(`/sys/class/net/${hostLink}/ifalias`, 'utf8').catch(() => undefined);
  return alias?.trim();
}

/**
 * Takes the link away if this cluster has it. It would go with the sandbox too, but seconds later: the kernel takes network
 * namespaces apart in the background.
 */
export async function unlinkHost(places: Places): Promise<void> {
  if ((await holder()) === aliasOf(places)) await ip('link', 'del', hostLink).catch(() => undefined);
}

/** Links the host to a sandbox unless another cluster has the link; says how it ended, and never fails. */
export async function linkHost(places: Places, sandboxPid: number): Promise<HostAccess> {
  try {
    await protectRange(places);
    await unlinkHost(places);
    await guard(sandboxPid);
    await ip('link', 'add', hostLink, 'type', 'veth', 'peer', 'name', 'host0', 'netns', String(sandboxPid));
  } catch (error) {
    const [name] = (await holder())?.split(' ') ?? [];
    return unreachable(name === undefined ? messageOf(error) : `the cluster ${name} has the link to them`);
  }
  try {
    await configure(places, sandboxPid);
    return { reachable: true, message: 'reachable from this machine at the addresses of its nodes' };
  } catch (error) {
    await ip('link', 'del', hostLink).catch(() => undefined);
    return unreachable(messageOf(error));
  }
}

function unreachable(why: string): HostAccess {
  const message = `the addresses of its nodes are not reachable from this machine: ${why}; svc3 vm ssh and svc3 vm tunnel work`;
  return { reachable: false, message };
}

/**
 * What the sandbox's end lets through, before there is a link: calls of the host to nodes, and the answers to them. The rules are
 * in the sandbox, where no flush of the host's own rules can take them away.
 */
async function guard(sandboxPid: number): Promise<void> {
  const rules = `
table inet svc3-host {
  chain forward {
    type filter hook forward priority filter; policy accept;
    oifname "host0" ct state established,related accept
    oifname "host0" reject with icmpx admin-prohibited
    iifname "host0" ip saddr != ${hostEnd} drop
    iifname "host0" ip daddr != ${nodeRange} drop
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "host0" ct state established,related accept
    iifname "host0" drop
  }
  chain output {
    type filter hook output priority filter; policy accept;
    oifname "host0" ct state != established,related reject with icmpx admin-prohibited
  }
}
`;
  await inside(sandboxPid, ['nft', '-f', '-'], rules);
}

async function configure(places: Places, sandboxPid: number): Promise<void> {
  await ip('link', 'set', hostLink, 'alias', aliasOf(places));
  // The kernel would give both ends a link-local address, for which there are no rules.
  const noIpv6 = (link: string): string => `echo 1 > /proc/sys/net/ipv6/conf/${link}/disable_ipv6 || true`;
  await run('sh', ['-c', noIpv6(hostLink)]);
  await inside(sandboxPid, ['sh', '-c', noIpv6('host0')]);
  await inside(sandboxPid, ['ip', 'addr', 'add', `${sandboxEnd}/30`, 'dev', 'host0']);
  await inside(sandboxPid, ['ip', 'link', 'set', 'host0', 'up']);
  await ip('addr', 'add', `${hostEnd}/30`, 'dev', hostLink);
  await ip('link', 'set', hostLink, 'up');
  await ip('route', 'add', nodeRange, 'via', sandboxEnd, 'dev', hostLink, 'src', hostEnd);
}

function inside(sandboxPid: number, command: [string, ...string[]], input?: string): Promise<string> {
  const [program, ...parameters] = insideSandbox(sandboxPid, command);
  return run(program, parameters, input === undefined ? {} : { input });
}

function ip(...parameters: string[]): Promise<string> {
  return run('ip', parameters);
}
