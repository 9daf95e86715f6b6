import type { TestProject } from 'vitest/node';
import { createClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { ownControlPlane } from './controlplane.ts';
import { installDefinitions } from './definitions.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    cluster: { kubeconfigPath: string; server: string; caPem: string; adminToken: string };
  }
}

/** One control plane with the CRDs of this source tree for all integration tests of a run. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const controlPlane = await ownControlPlane();
  try {
    const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
    await installDefinitions(client);
    await client.close();
  } catch (error) {
    await controlPlane.remove();
    throw error;
  }
  const { kubeconfigPath, server, caPem, adminToken } = controlPlane;
  project.provide('cluster', { kubeconfigPath, server, caPem, adminToken });
  return () => controlPlane.remove();
}
