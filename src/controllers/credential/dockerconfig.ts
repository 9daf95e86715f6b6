import { hubHost, type RegistryIdentity } from '../../registry/identity.ts';

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

const encoder = new TextEncoder();

/** UTF-8 in base64. */
export function base64(text: string): string {
  return encoder.encode(text).toBase64();
}

/** The `auth` of a docker config: what stands in an `Authorization: Basic` header. */
function basicAuth(username: string, password: string): string {
  return base64(`${username}:${password}`);
}

/** The text of `.dockerconfigjson`; the same logins give the same text, in whatever order they come. */
export function dockerConfigJson(logins: readonly RegistryLogin[]): string {
  const entries: { readonly key: string; readonly entry: AuthEntry }[] = [];
  for (const { registry, username, password } of logins) {
    const entry = { username, password, auth: basicAuth(username, password) };
    for (const key of dockerConfigKeys(registry)) entries.push({ key, entry });
  }
  entries.sort((a, b) => (a.key < b.key ? -1 : 1));
  const auths: Record<string, AuthEntry> = {};
  for (const { key, entry } of entries) auths[key] = entry;
  return JSON.stringify({ auths });
}
