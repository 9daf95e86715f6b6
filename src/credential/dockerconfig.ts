import { hubHost, type RegistryIdentity } from './registry.ts';

/** User name and password of one registry. */
export interface RegistryLogin {
  readonly registry: RegistryIdentity;
  readonly username: string;
  readonly password: string;
}

interface AuthEntry {
  readonly username: string;
  readonly password: string;
  readonly auth: string;
}

/**
 * The keys under which kubelet, containerd and other clients look a registry up. The kubelet compares host and port as
 * text, so a default port is there with and without it; Docker Hub's is the one key that all clients know.
 */
export function dockerConfigKeys({ hosts, port, name }: RegistryIdentity): string[] {
  if (name === `${hubHost}.443`) return [`https://${hubHost}/v1/`];
  return hosts.flatMap((host) => (port === 443 ? [host, `${host}:443`] : [`${host}:${port}`]));
}

/** UTF-8 in base64. */
export function base64(text: string): string {
  return new TextEncoder().encode(text).toBase64();
}

/** The `auth` of a docker config: what stands in an `Authorization: Basic` header. */
export function basicAuth(username: string, password: string): string {
  return base64(`${username}:${password}`);
}

/** The text of `.dockerconfigjson`; the same logins give the same text, in whatever order they come. */
export function dockerConfigJson(logins: readonly RegistryLogin[]): string {
  const auths: Record<string, AuthEntry> = {};
  const entries = logins.flatMap(({ registry, username, password }) =>
    dockerConfigKeys(registry).map((key) => ({
      key,
      entry: { username, password, auth: basicAuth(username, password) },
    })),
  );
  for (const { key, entry } of entries.sort((a, b) => (a.key < b.key ? -1 : 1))) auths[key] = entry;
  return JSON.stringify({ auths });
}
