import { invalidField } from '../errors.ts';

/**
 * A registry as the kubelet and containerd tell registries apart: by host and effective port. The scheme is no part of
 * it (the kubelet drops it), the port is compared as text.
 */
export interface RegistryIdentity {
  readonly scheme: 'http' | 'https';
  /** Spellings of the host in image references, lower case; the usual one first. Two for an IPv6 address. */
  readonly hosts: readonly [string, ...string[]];
  readonly port: number;
  /** Name of the RegistryCredential: `<host>.<port>`, an IPv6 address in full with dashes. */
  readonly name: string;
  /** As image references name it: the host, and the port where it is not 443. */
  readonly registry: string;
  /** The address in the spelling that kube-apiserver takes: lower case, an IPv6 address in full. */
  readonly server: string;
}

const hubHosts = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);
/** What the kubelet calls Docker Hub. */
export const hubHost = 'index.docker.io';

const addressPattern = /^(?<scheme>https?):\/\/(?<address>.*)$/s;
const hostPattern = /^(?<host>\[[^\]]*\]|[^:[\]]*)(?::(?<port>.*))?$/s;
const dnsName = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
/** Of a Kubernetes object. */
const nameLength = 253;

/** Registries are few, and each is read again for every namespace that names it. */
const known = new Map<string, RegistryIdentity>();
const mostKnown = 1_000;

/**
 * Reads `<scheme>://<host>[:<port>]` (spec: "Registry credential").
 *
 * @throws Invalid, naming `field`.
 */
export function parseServer(server: string, field = 'server'): RegistryIdentity {
  const found = known.get(server);
  if (found !== undefined) return found;
  const read = readServer(server, field);
  if (known.size >= mostKnown) known.clear();
  known.set(server, read);
  return read;
}

function readServer(server: string, field: string): RegistryIdentity {
  const refuse = (why: string): never => {
    throw invalidField(field, why);
  };
  const { scheme, address } = addressPattern.exec(server)?.groups ?? {};
  if (scheme === undefined || address === undefined)
    return refuse('must begin with https:// or http://, e.g. https://registry.example.com');
  const extra = extraOf(address);
  if (extra !== undefined) return refuse(extra);
  const { host: written = '', port: portText } = hostPattern.exec(address)?.groups ?? {};
  if (written === '') return refuse('has no host, e.g. https://registry.example.com');
  const port = portText === undefined ? (scheme === 'https' ? 443 : 80) : portOf(portText);
  if (port === undefined) return refuse('the port must be between 1 and 65535');
  const host = written.startsWith('[') ? ipv6Host(written.slice(1, -1)) : nameHost(written);
  if (host === undefined) return refuse(`"${written}" is not a host name or address`);
  const name = `${host.name}.${port}`;
  if (name.length > nameLength) return refuse(`the host is longer than ${nameLength - 6} characters`);
  return {
    scheme: scheme === 'https' ? 'https' : 'http',
    hosts: host.hosts,
    port,
    name,
    registry: `${host.name === hubHost ? 'docker.io' : host.hosts[0]}${port === 443 ? '' : `:${port}`}`,
    server: `${scheme}://${host.server}${portText === undefined ? '' : `:${port}`}`,
  };
}

/** What an address has that no registry's identity has. */
function extraOf(address: string): string | undefined {
  if (/\s/.test(address)) return 'must not hold spaces';
  if (address.includes('@')) return 'must not hold a user name or password; give them by themselves';
  if (address.includes('?')) return 'must not have a query';
  if (address.includes('#')) return 'must not have a fragment';
  if (/^[^/]*\/+$/.test(address)) return 'must not end with a slash';
  if (address.includes('/')) return 'must not have a path: a credential is for a whole registry';
  return undefined;
}

function portOf(text: string): number | undefined {
  const port = /^[1-9][0-9]{0,4}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : undefined;
}

interface Host {
  readonly hosts: readonly [string, ...string[]];
  readonly name: string;
  readonly server: string;
}

function nameHost(written: string): Host | undefined {
  const host = written.toLowerCase();
  if (!dnsName.test(host)) return undefined;
  const name = hubHosts.has(host) ? hubHost : host;
  return { hosts: [host], name, server: host };
}

function ipv6Host(text: string): Host | undefined {
  const groups = ipv6Groups(text.toLowerCase());
  if (groups === undefined) return undefined;
  const full = groups.map((group) => group.toString(16).padStart(4, '0'));
  return {
    hosts: [`[${compressed(groups)}]`, `[${full.join(':')}]`],
    name: full.join('-'),
    server: `[${full.join(':')}]`,
  };
}

/** The eight groups of an IPv6 address; no zone, no dotted IPv4 tail. */
function ipv6Groups(text: string): number[] | undefined {
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [left = [], right = []] = halves.map((half) => (half === '' ? [] : half.split(':')));
  const missing = 8 - left.length - right.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...left, ...Array.from({ length: missing }, () => '0'), ...right];
  return groups.every((group) => /^[0-9a-f]{1,4}$/.test(group))
    ? groups.map((group) => Number.parseInt(group, 16))
    : undefined;
}

/** RFC 5952: the longest run of zeros, the first of equals and of at least two, becomes `::`. */
function compressed(groups: readonly number[]): string {
  let best = { start: -1, length: 1 };
  let start = 0;
  groups.forEach((group, index) => {
    if (group !== 0) start = index + 1;
    else if (index - start + 1 > best.length) best = { start, length: index - start + 1 };
  });
  const text = (part: readonly number[]) => part.map((group) => group.toString(16)).join(':');
  return best.start === -1
    ? text(groups)
    : `${text(groups.slice(0, best.start))}::${text(groups.slice(best.start + best.length))}`;
}
