import type { KubeObject, Resource } from '../../../src/api/object.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';

export type Spec = Record<string, unknown>;

/** Objects that are shown to kube-apiserver to see what it says. */
export interface Trial {
  readonly client: KubeClient;
  readonly namespace: string;
  /** An object of the namespace with a spec that need not be right. */
  object(name: string, spec: Spec): KubeObject;
  dryRun(resource: Resource<KubeObject>, name: string, spec: Spec): Promise<KubeObject>;
}

export async function trial(prefix: string): Promise<Trial> {
  const { client } = await testCluster();
  const namespace = await uniqueNamespace(client, prefix);
  const object = (name: string, spec: Spec) => ({ metadata: { name, namespace }, spec }) as KubeObject;
  return {
    client,
    namespace,
    object,
    dryRun: (resource, name, spec) => client.create(resource, object(name, spec), { dryRun: true }),
  };
}
