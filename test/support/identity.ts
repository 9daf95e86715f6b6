import { sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { PolicyRule } from '../../src/api/core.ts';
import { clusterRoleBindings, roleBindings, serviceAccounts } from '../../src/api/resources.ts';
import { clusterRoles } from './resources.ts';
import type { KubeClient } from '../../src/kube/types.ts';

const timeoutMs = 60_000;

/**
 * A token of a new ServiceAccount with these ClusterRoles, in `namespace` or `in` another one by a RoleBinding, or in the whole cluster, once
 * kube-apiserver goes by them.
 */
export async function identity(
  client: KubeClient,
  name: string,
  grants: { namespace: string; role?: string; in?: string; clusterRole?: string; audiences?: string[] },
): Promise<string> {
  await client.create(serviceAccounts, { metadata: { name, namespace: grants.namespace } });
  const subject = { kind: 'ServiceAccount', name, namespace: grants.namespace } as const;
  const where = grants.in ?? grants.namespace;
  if (grants.role !== undefined)
    await client.create(roleBindings, {
      metadata: { name: `${grants.namespace}-${name}`, namespace: where },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: grants.role },
      subjects: [subject],
    });
  if (grants.clusterRole !== undefined)
    await client.create(clusterRoleBindings, {
      metadata: { generateName: `${name}-` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: grants.clusterRole },
      subjects: [subject],
    });
  const user = `system:serviceaccount:${grants.namespace}:${name}`;
  if (grants.role !== undefined) await untilGranted(client, user, grants.role, where);
  if (grants.clusterRole !== undefined) await untilGranted(client, user, grants.clusterRole);
  return tokenOf(client, grants.namespace, name, grants.audiences);
}

/** Until kube-apiserver goes by a binding: it hears of it a moment after that was written. */
async function untilGranted(
  client: KubeClient,
  user: string,
  role: string,
  namespace?: string,
): Promise<void> {
  const [rule] = (await client.get(clusterRoles, role)).rules ?? [];
  if (rule === undefined) return;
  const body = { spec: { user, ...accessOf(rule, namespace) } };
  const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
  for (const until = performance.now() + timeoutMs; performance.now() < until; await delay(20)) {
    const review = await client.request<{ status?: { allowed?: boolean } }>({ method: 'POST', path, body });
    if (review.body.status?.allowed === true) return;
  }
  throw new Error(`${user} does not get the rights of ClusterRole ${role}`);
}

/** Something that the rule allows, in the words of a SubjectAccessReview. */
function accessOf(
  {
    verbs: [verb],
    apiGroups: [apiGroup] = [],
    resources = [],
    resourceNames = [],
    nonResourceURLs,
  }: PolicyRule,
  namespace: string | undefined,
): object {
  if (nonResourceURLs !== undefined) return { nonResourceAttributes: { verb, path: nonResourceURLs[0] } };
  const [resource, subresource] = resources[0]?.split('/') ?? [];
  return {
    resourceAttributes: { verb, group: apiGroup, resource, subresource, name: resourceNames[0], namespace },
  };
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

/**
 * The same token with another end, which may be sooner than any that kube-apiserver gives out: signed with the key of the control plane, as it
 * signs its own.
 *
 * @param kubeconfigPath - of the control plane, beside its keys
 */
export async function endingIn(seconds: number, token: string, kubeconfigPath: string): Promise<string> {
  const [header = '', claims = ''] = token.split('.');
  const said = JSON.parse(Buffer.from(claims, 'base64url').toString()) as object;
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const text = `${header}.${Buffer.from(JSON.stringify({ ...said, exp })).toString('base64url')}`;
  const key = await readFile(join(dirname(kubeconfigPath), 'pki', 'sa.key'));
  return `${text}.${sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}
