import { invalidField } from '../errors.ts';

/** Where an OCI image lies: a registry, a repository in it, and a tag or a digest. */
export interface ImageReference {
  /** `host` or `host:port`, lower case; Docker Hub is `docker.io`. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  readonly digest?: string;
}

const component = '[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*';
/** As the distribution specification has it: such a name leads nowhere else in a path. */
export const repositoryPattern = new RegExp(`^${component}(?:/${component})*$`);
export const tagPattern = /^\w[\w.-]{0,127}$/;
const digestPattern = /^sha256:[a-f0-9]{64}$/;
const hostPattern = /^(?:\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::\d{1,5})?$/i;

function looksLikeHost(text: string): boolean {
  return text === 'localhost' || text.includes('.') || text.includes(':');
}

/**
 * Reads a reference as the kubelet does: the first part is a registry when it has a dot or a colon or is `localhost`,
 * else the image is Docker Hub's; without tag and digest the tag is `latest`.
 *
 * @throws Invalid, naming `field`.
 */
export function parseReference(text: string, field = 'image'): ImageReference {
  const refuse = (why: string): never => {
    throw invalidField(field, `"${text}" is not an image reference: ${why}`);
  };
  if (text.length > 512) refuse('it is longer than 512 characters');
  if (text.includes('://')) refuse('leave the scheme out');
  const at = text.indexOf('@');
  const digest = at === -1 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !digestPattern.test(digest))
    refuse('the digest has to be sha256 and 64 hexadecimal digits');
  const named = at === -1 ? text : text.slice(0, at);
  const slash = named.indexOf('/');
  const first = slash === -1 ? '' : named.slice(0, slash);
  const hasRegistry = slash !== -1 && looksLikeHost(first);
  const registry = hasRegistry ? first.toLowerCase() : 'docker.io';
  if (!hostPattern.test(registry)) refuse('the registry is not a host name with an optional port');
  const path = hasRegistry ? named.slice(slash + 1) : named;
  const colon = path.lastIndexOf(':');
  const tag = colon === -1 ? undefined : path.slice(colon + 1);
  if (tag !== undefined && !tagPattern.test(tag))
    refuse('the tag may have letters, digits, "_", "." and "-", at most 128');
  const bare = colon === -1 ? path : path.slice(0, colon);
  const repository = registry === 'docker.io' && !bare.includes('/') ? `library/${bare}` : bare;
  if (!repositoryPattern.test(repository))
    refuse('the repository has to be lower case, parts divided by "/"');
  if (repository.length > 255) refuse('the repository is longer than 255 characters');
  return {
    registry: registry === 'index.docker.io' || registry === 'registry-1.docker.io' ? 'docker.io' : registry,
    repository,
    ...(tag === undefined ? (digest === undefined ? { tag: 'latest' } : {}) : { tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

/** A registry as image references name it, and a path in it. */
export interface RegistryAddress {
  /** `host` or `host:port`, lower case; empty where the address is. */
  readonly registry: string;
  /** Without slashes around it; empty: all of the registry. */
  readonly path: string;
}

/**
 * Reads `[http[s]://]host[:port][/path]`. The port is named wherever a reference without it means another registry: nodes ask port 443 then,
 * and take a host without a dot for a user of Docker Hub, the brackets of an IPv6 address for a pattern.
 */
export function registryAddress(text: string): RegistryAddress {
  const [written = '', ...path] = text.replace(/^https?:\/\//, '').split('/');
  const host = written.toLowerCase();
  return {
    registry: host === '' || /:\d+$/.test(host) ? host : `${host}${portOf(text, host)}`,
    path: path.filter((part) => part !== '').join('/'),
  };
}

function portOf(address: string, host: string): string {
  if (address.startsWith('http://')) return ':80';
  return host.includes('.') ? '' : ':443';
}

/** The same image pinned to a digest, without its tag. */
export function pinned(reference: ImageReference, digest: string): ImageReference {
  return { registry: reference.registry, repository: reference.repository, digest };
}

/** What to ask the registry for: the digest where there is one, else the tag. */
export function manifestName(reference: ImageReference): string {
  return reference.digest ?? reference.tag ?? 'latest';
}
