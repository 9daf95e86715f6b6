import { apiServices, namespaces, nodes, services } from '../../src/api/resources.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { type ApiProcess, startApiProcess } from './apiprocess.ts';
import { type EmptyControlPlane, emptyControlPlane } from './emptycontrolplane.ts';

export interface AggregatedCluster {
  readonly plane: EmptyControlPlane;
  readonly client: RootClient;
  /** Where the api listens, also after a restart; 0 before its first start. */
  readonly port: number;
  /** Whether kube-apiserver reaches the aggregated API. */
  available(): Promise<boolean>;
  start(): Promise<ApiProcess>;
  remove(): Promise<void>;
}

/** Leads kube-apiserver to an api on this machine; the namespace of the installation has to be there. */
export async function registerApi(client: RootClient, port: number): Promise<void> {
  // There are no pods: the Service leads to this machine by name.
  const service = { type: 'ExternalName' as const, externalName: 'localhost', ports: [{ port }] };
  await client.create(services, { metadata: { name: 'svc3-api', namespace: 'svc3-system' }, spec: service });
  await client.create(apiServices, {
    metadata: { name: 'v1.api.svc3.dev' },
    spec: {
      group: 'api.svc3.dev',
      version: 'v1',
      groupPriorityMinimum: 1000,
      versionPriority: 15,
      service: { name: 'svc3-api', namespace: 'svc3-system', port },
    },
  });
}

/** A control plane with an APIService that leads to an api on this machine, and one node. */
export async function aggregatedCluster(): Promise<AggregatedCluster> {
  const plane = await emptyControlPlane();
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath));
  await client.create(namespaces, { metadata: { name: 'svc3-system' } });
  await client.create(nodes, { metadata: { name: 'n1', labels: { 'kubernetes.io/arch': 'amd64' } } });
  const status = { allocatable: { cpu: '12', memory: '32Gi' } };
  await client.patch(nodes, { name: 'n1' }, { type: 'merge', body: { status } }, { subresource: 'status' });
  const running: ApiProcess[] = [];
  // The first api takes a port that the system gives it: one that was looked for before may be somebody else's by then.
  let port = 0;
  return {
    plane,
    client,
    get port() {
      return port;
    },
    async available() {
      const found = (await client.get(apiServices, 'v1.api.svc3.dev')) as {
        status?: { conditions?: { type: string; status: string }[] };
      };
      return (
        found.status?.conditions?.some(({ type, status: is }) => type === 'Available' && is === 'True') ===
        true
      );
    },
    async start() {
      const api = await startApiProcess(plane.kubeconfigPath, { SVC3_HTTP_PORT: String(port) });
      running.push(api);
      if (port === 0) await registerApi(client, api.port);
      port = api.port;
      return api;
    },
    async remove() {
      await Promise.all(running.map((api) => api.stop()));
      await client.close();
      await plane.remove();
    },
  };
}
