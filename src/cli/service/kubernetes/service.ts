import { namespaces } from '../../../api/resources.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Service } from '../types.ts';
import { createDisks } from './disks.ts';
import type { Informers } from './follow.ts';
import { createNodes } from './nodes.ts';
import { createRegistryCredentials } from './registrycredentials.ts';
import { createServiceAccounts } from './serviceaccounts.ts';
import { createVmConfigs } from './vmconfigs.ts';
import { createVmPools } from './vmpools.ts';
import { createVms } from './vms.ts';

/** What the service on kube-apiserver is made of. */
export interface KubernetesServiceOptions {
  readonly client: KubeClient;
  readonly informers: Informers;
  /** The HTTP API, for streams and what else only it can do; throws where none is configured. */
  http(): Promise<Service>;
  /** Whether `http` can be asked at all. */
  readonly hasHttp: boolean;
  warning(text: string): void;
}

/** svc3 straight on kube-apiserver, with the rights of the kubeconfig's user. */
export function createKubernetesService(options: KubernetesServiceOptions): Service {
  const { client, http, hasHttp, warning } = options;
  return {
    vms: createVms(options, { http, warning }),
    vmConfigs: createVmConfigs(options, warning),
    vmPools: createVmPools(options, warning),
    nodes: createNodes(options),
    images: createDisks(options, 'images', http),
    isos: createDisks(options, 'isos', http),
    serviceAccounts: createServiceAccounts(client, warning),
    registryCredentials: createRegistryCredentials(client),
    async namespaces() {
      const { items } = await client.list(namespaces);
      return items.map(({ metadata: { name } }) => name);
    },
    pageUrl: async () => (await http()).pageUrl(),
    clusterInfo: async () => (hasHttp ? (await http()).clusterInfo() : undefined),
    oidcClient: async () => (hasHttp ? (await http()).oidcClient() : undefined),
    close: () => client.close(),
  };
}
