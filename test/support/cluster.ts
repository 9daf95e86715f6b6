import { inject } from 'vitest';
import { namespaces } from '../../src/api/resources.ts';
import { type RootClient, createClient } from '../../src/kube/client.ts';
import { type ConnectionConfig, loadKubeconfig } from '../../src/kube/connection.ts';
import type { KubeClient } from '../../src/kube/types.ts';

const cleanups: (() => Promise<void>)[] = [];

export interface TestCluster {
  /** Has all rights; closed when the test file is over. */
  readonly client: RootClient;
  readonly connection: ConnectionConfig;
  readonly kubeconfigPath: string;
  readonly server: string;
  readonly caPem: string;
  /** Bearer token with all rights. */
  readonly adminToken: string;
}

/**
 * The control plane that all integration tests of a run share, with the CRDs installed and no node, operator or policy.
 * Make what you need in a namespace of your own.
 */
export async function testCluster(): Promise<TestCluster> {
  const cluster = inject('cluster');
  const connection = await loadKubeconfig(cluster.kubeconfigPath);
  const client = createClient(connection);
  cleanups.push(() => client.close());
  return { ...cluster, client, connection };
}

/** A new namespace, named `<prefix>-<random>`, that is deleted when the test file is over. */
export async function uniqueNamespace(client: KubeClient, prefix = 'test'): Promise<string> {
  const created = await client.create(namespaces, { metadata: { generateName: `${prefix}-` } });
  const name = created.metadata?.name ?? '';
  cleanups.push(() => client.delete(namespaces, { name }));
  return name;
}

/** Undoes what the functions above did for the test file that has ended. */
export async function cleanUp(): Promise<void> {
  // What cannot be deleted any more belonged to a cluster that is gone or soon will be.
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup().catch(() => undefined);
}
