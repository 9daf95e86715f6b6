import type { Secret } from '../../api/core.ts';
import { objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { registryCredentials, secrets } from '../../api/resources.ts';
import { ifFound } from '../../errors.ts';
import type { KubeClient } from '../../kube/types.ts';
import { createRegistryClient, type RegistryClient } from '../../registry/client.ts';
import type { RegistryFailed } from '../../registry/transport.ts';
import { loginFor } from '../../registry/login.ts';
import { accessOf, credentialName, type RegistryAccess } from './access.ts';
import type { StoreSettings } from './settings.ts';

/** How a namespace reaches a registry now. */
export interface NamespaceAccess {
  /** Changes with the namespace's credential; empty where it has none and is anonymous like all others that have none. */
  readonly version: string;
  /** A client with that credential, to be closed. */
  open(): RegistryClient;
}

/** Registries as a namespace reaches them: with its RegistryCredential and the login in its pull Secret. */
export interface NamespaceRegistries {
  /** How the namespace reaches a registry, `host[:port]`. */
  access(namespace: string, registry: string): Promise<RegistryAccess>;
  /** What it would be opened with, and which version of that. */
  look(namespace: string, registry: string): Promise<NamespaceAccess>;
  /** A client with the namespace's credential, else an anonymous one; to be closed. */
  open(namespace: string, registry: string): Promise<RegistryClient>;
}

/** Read afresh for each piece of work: a credential that was rotated counts at once. */
export function createNamespaceRegistries(
  client: Pick<KubeClient, 'get'>,
  store: StoreSettings,
  failed?: RegistryFailed,
): NamespaceRegistries {
  async function look(namespace: string, registry: string): Promise<NamespaceAccess> {
    const [credential, secret] = await Promise.all([
      credentialFor(client, namespace, registry),
      ifFound<Secret>(client.get(secrets, objectNames.pullSecret, namespace)),
    ]);
    const text = Buffer.from(secret?.data?.['.dockerconfigjson'] ?? '', 'base64').toString('utf8');
    const credentials = loginFor(text, registry);
    const how = accessOf(credential, registry, store);
    const versions = [credential?.metadata.resourceVersion, secret?.metadata.resourceVersion];
    const isAnonymous = credential === undefined && credentials === undefined;
    return {
      version: isAnonymous ? '' : [namespace, ...versions].join('/'),
      open: () =>
        createRegistryClient({
          registry,
          failed,
          ...how,
          ...(credentials === undefined ? {} : { credentials }),
        }),
    };
  }

  return {
    access: async (namespace, registry) =>
      accessOf(await credentialFor(client, namespace, registry), registry, store),
    look,
    open: async (namespace, registry) => (await look(namespace, registry)).open(),
  };
}

async function credentialFor(
  client: Pick<KubeClient, 'get'>,
  namespace: string,
  registry: string,
): Promise<RegistryCredential | undefined> {
  return ifFound<RegistryCredential>(client.get(registryCredentials, credentialName(registry), namespace));
}
