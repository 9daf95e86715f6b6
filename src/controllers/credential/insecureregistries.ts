import type { ConfigMap } from '../../api/core.ts';
import { labels, namespaces, objectNames } from '../../api/meta.ts';
import type { RegistryCredential } from '../../api/registrycredential.ts';
import { configMaps } from '../../api/resources.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import type { Expectations } from '../../controller/expectations.ts';
import { insecureServers, serversKey, type InsecurePolicy } from './insecure.ts';

export interface InsecureRegistriesOptions {
  client: KubeClient;
  credentials: Informer<RegistryCredential>;
  /** Of the one ConfigMap. */
  configMap: Informer<ConfigMap>;
  expected: Expectations<ConfigMap>;
  policy: InsecurePolicy;
}

/** Keeps the ConfigMap true from which node agents learn what containerd may reach without a trusted certificate. */
export function createInsecureRegistriesReconciler(options: InsecureRegistriesOptions): () => Promise<void> {
  const { client, credentials, configMap, expected, policy } = options;
  const name = objectNames.insecureRegistries;
  return async () => {
    const servers = insecureServers(credentials.list(), policy).join('\n');
    const present = expected.current(name, configMap.get(name, namespaces.node));
    // Agents take a missing one for an empty one.
    if (present === undefined ? servers === '' : present.data?.[serversKey] === servers) return;
    const written = await client.apply(configMaps, {
      metadata: {
        name,
        namespace: namespaces.node,
        labels: {
          [labels.name]: 'svc3',
          [labels.component]: 'insecure-registries',
          [labels.partOf]: 'svc3',
          [labels.managedBy]: 'svc3',
        },
      },
      data: { [serversKey]: servers },
    });
    expected.wrote(name, written);
  };
}
