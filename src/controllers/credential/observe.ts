import type { Secret } from '../../api/core.ts';
import { namespaces, objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { registryCredentials, secrets } from '../../api/resources.ts';
import type { Informers } from '../../controller/informers.ts';
import { isSvc3Error } from '../../errors.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import type { Expectations } from '../../controller/expectations.ts';
import type { Observed } from './decide.ts';

/** The caches that everything about registry credentials is decided from. */
export interface CredentialCaches {
  readonly credentials: Informer<RegistryCredential>;
  /** Of `svc3-credentials`. */
  readonly basicAuth: Informer<Secret>;
  /** Of all namespaces, and only Secrets of this one name. */
  readonly pullSecrets: Informer<Secret>;
  synced(): Promise<void>;
  /** Credentials, of whatever namespace, that name this basic-auth Secret. */
  naming(secretName: string): readonly RegistryCredential[];
}

const bySecret = 'secretRef';

/** Only what is read here stays in memory; of managedFields, who applied it. */
function slimSecret(secret: Secret): Secret {
  const { managedFields, annotations: _, ...metadata } = secret.metadata;
  const appliers = (managedFields ?? [])
    .filter(({ operation }) => operation === 'Apply')
    .map(({ manager = '', operation = '' }) => ({ manager, operation }));
  return { ...secret, metadata: { ...metadata, managedFields: appliers } };
}

function slimBasicAuth({ type, metadata, data }: Secret): Secret {
  const { managedFields: _, annotations: __, ...kept } = metadata;
  const wanted = ['username', 'password'].flatMap((key) => {
    const value = data?.[key];
    return value === undefined ? [] : [[key, value] as const];
  });
  return { ...(type === undefined ? {} : { type }), metadata: kept, data: Object.fromEntries(wanted) };
}

export function createCredentialCaches(informers: Informers): CredentialCaches {
  const credentials = informers.get(registryCredentials, {
    indexes: { [bySecret]: ({ spec }) => [spec.secretRef.name] },
  });
  const basicAuth = informers.get(secrets, { namespace: namespaces.credentials, transform: slimBasicAuth });
  const pullSecrets = informers.get(secrets, {
    // The operator has rights on no other Secret; without the selector the list would be refused.
    fieldSelector: `metadata.name=${objectNames.pullSecret}`,
    transform: slimSecret,
    keepManagedFields: true,
  });
  return {
    credentials,
    basicAuth,
    pullSecrets,
    async synced() {
      await Promise.all([credentials.synced(), basicAuth.synced(), pullSecrets.synced()]);
    },
    naming: (secretName) => credentials.byIndex(bySecret, secretName),
  };
}

/**
 * A basic-auth Secret: from the cache, else from the server. Two watches have no order between them: a credential may be
 * seen before the Secret that was written before it, and is not to be called broken for that.
 */
export async function findBasicAuth(
  caches: CredentialCaches,
  client: KubeClient,
  name: string,
): Promise<Secret | undefined> {
  const cached = caches.basicAuth.get(name, namespaces.credentials);
  if (cached !== undefined) return cached;
  try {
    return await client.get(secrets, name, namespaces.credentials);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** What a pass looks at; what is expected of pull Secrets is by namespace. */
export interface Sources {
  readonly client: KubeClient;
  readonly caches: CredentialCaches;
  readonly expectedPullSecrets: Expectations<Secret>;
}

/** One namespace: its credentials in order of their names, their Secrets, and its pull Secret. */
export async function observe(
  { client, caches, expectedPullSecrets }: Sources,
  namespace: string,
): Promise<Observed> {
  const credentials = [...caches.credentials.list(namespace)].sort((a, b) =>
    a.metadata.name < b.metadata.name ? -1 : 1,
  );
  const found = new Map<string, Secret>();
  for (const { spec, metadata } of credentials) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const secret = await findBasicAuth(caches, client, spec.secretRef.name);
    if (secret !== undefined) found.set(spec.secretRef.name, secret);
  }
  const cached = caches.pullSecrets.get(objectNames.pullSecret, namespace);
  return { credentials, secrets: found, pullSecret: expectedPullSecrets.current(namespace, cached) };
}
