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
 * Name of the RegistryCredential for a registry as image references name it: `host[:port]`, the port 443 where there is none.
 *
 * @throws Svc3Error Invalid where that is no registry.
 */
export function credentialName(registry: string): string {
  return parseServer(`https://${registry}`).name;
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
