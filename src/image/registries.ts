import type { Secret } from '../api/core.ts';
import { objectNames } from '../api/meta.ts';
import type { RegistryCredential } from '../api/registrycredential.ts';
import { registryCredentials, secrets } from '../api/resources.ts';
import { ifFound } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { createRegistryClient, type RegistryClient } from '../registry/client.ts';
import { loginFor } from '../registry/login.ts';
import { accessOf, credentialNames, type RegistryAccess } from './access.ts';
import type { StoreSettings } from './settings.ts';

/** Registries as a namespace reaches them: with its RegistryCredential and the login in its pull Secret. */
export interface NamespaceRegistries {
  /** How the namespace reaches a registry, `host[:port]`. */
  access(namespace: string, registry: string): Promise<RegistryAccess>;
  /** A client with the namespace's credential, else an anonymous one; to be closed. */
  open(namespace: string, registry: string): Promise<RegistryClient>;
}

/** Read afresh for each piece of work: a credential that was rotated counts at once. */
export function createNamespaceRegistries(
  client: Pick<KubeClient, 'get'>,
  store: StoreSettings,
): NamespaceRegistries {
  const access = async (namespace: string, registry: string): Promise<RegistryAccess> =>
    accessOf(await credentialFor(client, namespace, registry), registry, store);

  return {
    access,
    async open(namespace, registry) {
      const [how, secret] = await Promise.all([
        access(namespace, registry),
        ifFound<Secret>(client.get(secrets, objectNames.pullSecret, namespace)),
      ]);
      const text = Buffer.from(secret?.data?.['.dockerconfigjson'] ?? '', 'base64').toString('utf8');
      const credentials = loginFor(text, registry);
      return createRegistryClient({
        registry,
        ...how,
        ...(credentials === undefined ? {} : { credentials }),
      });
    },
  };
}

async function credentialFor(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  registry: string,
): Promise<RegistryCredential | undefined> {
  for (const name of credentialNames(registry)) {
    const credential = await ifFound<RegistryCredential>(client.get(registryCredentials, name, namespace));
    if (credential !== undefined) return credential;
  }
  return undefined;
}
