import { clusterRoleBindings, roleBindings, serviceAccounts } from '../../src/api/resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';

/** A token of a new ServiceAccount with these roles: in `namespace` by a RoleBinding, or in the whole cluster. */
export async function identity(
  client: KubeClient,
  name: string,
  grants: { namespace: string; role?: string; in?: string; clusterRole?: string; audiences?: string[] },
): Promise<string> {
  await client.create(serviceAccounts, { metadata: { name, namespace: grants.namespace } });
  const subject = { kind: 'ServiceAccount', name, namespace: grants.namespace } as const;
  const where = grants.in ?? grants.namespace;
  if (grants.role !== undefined) {
    await client.create(roleBindings, {
      metadata: { name: `${grants.namespace}-${name}`, namespace: where },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: grants.role },
      subjects: [subject],
    });
  }
  if (grants.clusterRole !== undefined) {
    await client.create(clusterRoleBindings, {
      metadata: { generateName: `${name}-` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: grants.clusterRole },
      subjects: [subject],
    });
  }
  return tokenOf(client, grants.namespace, name, grants.audiences);
}

export async function tokenOf(
  client: KubeClient,
  namespace: string,
  name: string,
  audiences?: string[],
): Promise<string> {
  const { body } = await client.request<{ status: { token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { expirationSeconds: 3600, ...(audiences === undefined ? {} : { audiences }) },
    },
  });
  return body.status.token;
}
