/** Brings images from the store onto nodes before a pod asks for them, so that every namespace may run them. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeAddresses, registryHost } from '../shared/addresses.ts';
import { run } from '../host/command.ts';
import { containerdSocket, nodeFolder } from './node.ts';
import { insideNode } from '../shared/sandbox.ts';
import { type Places, type Report, type Settings, registryUser, writeSecret } from '../shared/state.ts';
import type { Tools } from '../host/tools.ts';

/** Pulls references onto all nodes that do not have them, one node after the other: they share the machine's disk. */
export async function preload(
  places: Places,
  settings: Settings,
  report: Report,
  tools: Tools,
  references: readonly string[],
): Promise<void> {
  for (const [index, node] of report.machines.entries()) {
    const folder = await preloadHosts(nodeFolder(places.state, nodeAddresses(index + 1)), settings);
    const ctr = ctrOf(tools, report.sandboxPid ?? 0, node.pid);
    const present = await ctr('ls', '-q');
    for (const reference of references)
      if (!present.split('\n').includes(reference)) await ctr('pull', '--hosts-dir', folder, reference);
  }
}

/** `ctr images` of a node; the numbers are those of `insideNode`. */
export function ctrOf(
  tools: Tools,
  sandboxPid: number,
  nodePid: number,
): (...parameters: string[]) => Promise<string> {
  const images = ['--address', containerdSocket, '-n', 'k8s.io', 'images'];
  return (...parameters) => {
    const command = [tools.path('ctr'), ...images, ...parameters] as const;
    const [program, ...rest] = insideNode(sandboxPid, nodePid, [...command]);
    return run(program, rest);
  };
}

/** Makes a folder for `ctr --hosts-dir` below `parent`; returns it. */
export async function preloadHosts(parent: string, settings: Settings): Promise<string> {
  const folder = join(parent, 'preload');
  const hosts = join(folder, registryHost);
  await mkdir(hosts, { recursive: true });
  await writeSecret(join(hosts, 'hosts.toml'), hostsToml(settings.registryPassword));
  return folder;
}

/** The password is in a file that only root reads: arguments can be read by all. */
function hostsToml(password: string): string {
  const basic = Buffer.from(`${registryUser}:${password}`).toString('base64');
  return `server = "http://${registryHost}"

[host."http://${registryHost}"]
  capabilities = ["pull", "resolve"]
  [host."http://${registryHost}".header]
    Authorization = "Basic ${basic}"
`;
}
