import { isIPv6 } from 'node:net';
import { invalidField } from '../errors.ts';

const shape = /^(https?):\/\/([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?|\[[0-9a-f:]+\])(?::([1-9][0-9]{0,4}))?$/i;
const hubNames = new Set(['docker.io', 'index.docker.io', 'registry-1.docker.io']);

/**
 * Name of the RegistryCredential of a server: `<host>.<port>`, as the CEL rule of `src/api/registryname.ts` demands it.
 * @throws Svc3Error Invalid naming `server`
 */
export function registryIdentity(server: string): {
  readonly name: string;
  readonly scheme: 'http' | 'https';
} {
  const match = shape.exec(server);
  const [, scheme = '', host = '', port] = match ?? [];
  if (match === null) {
    const missing = !/^[a-z]+:\/\//i.test(server);
    throw invalidField(
      'server',
      missing
        ? 'must start with http:// or https://'
        : 'must be <scheme>://<host>[:<port>], without path or trailing slash',
    );
  }
  if (Number(port ?? 443) > 65_535) throw invalidField('server', 'the port must be between 1 and 65535');
  const secure = scheme.toLowerCase() === 'https';
  const name = nameOfHost(host.toLowerCase());
  return { name: `${name}.${port ?? (secure ? 443 : 80)}`, scheme: secure ? 'https' : 'http' };
}

function nameOfHost(host: string): string {
  if (hubNames.has(host)) return 'index.docker.io';
  if (!host.startsWith('[')) return host;
  const address = host.slice(1, -1);
  if (!isIPv6(address)) throw invalidField('server', 'the host is not an IPv6 address');
  const [before = '', after] = address.split('::');
  const groups = (text: string) => text.split(':').filter((group) => group !== '');
  const head = groups(before);
  const tail = groups(after ?? '');
  const zeros = Array.from({ length: after === undefined ? 0 : 8 - head.length - tail.length }, () => '0');
  return [...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join('-');
}
