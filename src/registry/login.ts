import type { RegistryCredentials } from './auth.ts';

interface Entry {
  username?: string;
  password?: string;
  auth?: string;
}

/**
 * The login for a registry out of a docker configuration, as the kubelet finds it: by host, with or without the port where
 * that is 443; Docker Hub under its own key.
 */
export function loginFor(dockerConfigJson: string, registry: string): RegistryCredentials | undefined {
  const auths = authsOf(dockerConfigJson);
  const host = registry === 'docker.io' ? 'index.docker.io' : registry;
  const keys = [host, host.replace(/:443$/, ''), `${host}:443`, `https://${host}/v1/`];
  const key = keys.find((each) => auths[each] !== undefined);
  return key === undefined ? undefined : credentialsOf(auths[key] ?? {});
}

function authsOf(text: string): Record<string, Entry | undefined> {
  try {
    const parsed = JSON.parse(text) as { auths?: Record<string, Entry> } | null;
    return parsed?.auths ?? {};
  } catch {
    // The cause is dropped on purpose: it may quote the file.
    return {};
  }
}

function credentialsOf({ username, password, auth }: Entry): RegistryCredentials | undefined {
  if (username !== undefined && password !== undefined) return { username, password };
  const text = Buffer.from(auth ?? '', 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon === -1 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}
