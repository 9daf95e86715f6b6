import type { RegistryCredential } from '../../api/registrycredential.ts';
import { parseServer } from '../../registry/identity.ts';
import { storeRegistry, storeScheme } from './repositorypath.ts';
import type { StoreSettings } from './settings.ts';

/** How a registry is reached. */
export interface RegistryAccess {
  readonly scheme: 'http' | 'https';
  readonly skipVerify: boolean;
}

/**
 * Names of the RegistryCredentials that may be meant for a registry as image references name it (`host[:port]`); the first
 * that is there counts.
 */
export function credentialNames(registry: string): string[] {
  const servers = /:\d+$/.test(registry)
    ? [`https://${registry}`]
    : [`https://${registry}`, `http://${registry}`];
  return servers.map((server) => parseServer(server).name);
}

/** With the namespace's credential as that says; without one https, but the image store by the scheme of its address. */
export function accessOf(
  credential: RegistryCredential | undefined,
  registry: string,
  store: StoreSettings,
): RegistryAccess {
  if (credential === undefined)
    return { scheme: registry === storeRegistry(store) ? storeScheme(store) : 'https', skipVerify: false };
  const { server, allowInsecure } = credential.spec;
  return { scheme: parseServer(server).scheme, skipVerify: allowInsecure };
}
