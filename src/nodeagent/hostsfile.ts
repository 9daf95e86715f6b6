import { hubHost, parseServer } from '../registry/identity.ts';
import { isSvc3Error } from '../errors.ts';

/** First line of every file of ours. Whoever takes it out takes the file over. */
export const marker =
  '# Written by the svc3 node agent and kept up to date by it; without this line the file is yours.';

/** Where Docker Hub really answers. */
const hubServer = 'registry-1.docker.io';

interface Trusted {
  readonly folders: readonly string[];
  /** Address of the registry with its port. */
  readonly origin: string;
  readonly scheme: 'http' | 'https';
}

function trusted(server: string): Trusted {
  const { hosts, port, scheme, name } = parseServer(server);
  const isHub = name.startsWith(`${hubHost}.`);
  const spellings = isHub ? ['docker.io'] : hosts;
  return {
    folders: spellings.flatMap((host) => (port === 443 ? [host, `${host}:443`] : [`${host}:${port}`])),
    origin: `${scheme}://${isHub ? hubServer : hosts[0]}:${port}`,
    scheme,
  };
}

/**
 * The files below containerd's `certs.d` for registries that are to be reached without a trusted certificate: folder,
 * and text of its `hosts.toml`. A registry that one namespace calls http and another https is tried on both, https first.
 * What is no address of a registry is left out.
 */
export function hostsFiles(servers: readonly string[]): Map<string, string> {
  const byFolder = new Map<string, Trusted[]>();
  for (const server of servers.flatMap(readable))
    for (const folder of server.folders) byFolder.set(folder, [...(byFolder.get(folder) ?? []), server]);
  return new Map([...byFolder].map(([folder, entries]) => [folder, hostsToml(entries)]));
}

function readable(server: string): Trusted[] {
  try {
    return [trusted(server)];
  } catch (error) {
    if (isSvc3Error(error, 'Invalid')) return [];
    throw error;
  }
}

/** containerd tries the hosts in their order and `server` at last. */
function hostsToml(entries: readonly Trusted[]): string {
  const unique = new Map(entries.map((entry) => [entry.scheme, entry]));
  const [https, http] = [unique.get('https'), unique.get('http')];
  const lines = [marker];
  const last = http ?? https;
  if (last !== undefined) lines.push(`server = "${last.origin}"`);
  if (http === undefined) lines.push('skip_verify = true');
  else if (https !== undefined) lines.push('', `[host."${https.origin}"]`, '  skip_verify = true');
  return `${lines.join('\n')}\n`;
}

/**
 * Whether containerd looks for registries in this folder, by its own configuration file; `undefined` where that does not
 * say. Returns what it says instead.
 */
export function otherConfigPath(configToml: string, directory: string): string | undefined {
  let section = '';
  for (const line of configToml.split('\n')) {
    section = /^\s*\[([^[\]]+)\]/.exec(line)?.[1] ?? section;
    const [, configured] = /^\s*config_path\s*=\s*["'](.+)["']/.exec(line) ?? [];
    if (configured !== undefined && section.trim().endsWith('.registry'))
      return configured.split(':').includes(directory) ? undefined : configured;
  }
  return undefined;
}
