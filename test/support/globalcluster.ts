import type { TestProject } from 'vitest/node';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { ownControlPlane } from './controlplane.ts';
import { installDefinitions } from './definitions.ts';
import { letGoOfDeletedVms } from './deletedvms.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    cluster: { kubeconfigPath: string; server: string; caPem: string; adminToken: string };
  }
}

/** One control plane with the CRDs of this source tree for all integration tests of a run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const controlPlane = await ownControlPlane();
  const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  try {
    await installDefinitions(client);
  } catch (error) {
    await client.close();
    await controlPlane.remove();
    throw error;
  }
  const deletions = letGoOfDeletedVms(client);
  const { kubeconfigPath, server, caPem, adminToken } = controlPlane;
  project.provide('cluster', { kubeconfigPath, server, caPem, adminToken });
  return async () => {
    await deletions.stop();
    await client.close();
    await controlPlane.remove();
  };
}
