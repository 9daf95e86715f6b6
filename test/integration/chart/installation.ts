import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Pod, PolicyRule, TokenRequest } from '../../../src/api/core.ts';
import {
  clusterRoleBindings,
  namespaces,
  roleBindings,
  roles,
  serviceAccounts,
} from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { ensureTools, ownControlPlane } from '../../support/controlplane.ts';
import { helmTemplate } from './helm.ts';

const run = promisify(execFile);

/** Namespace of the people who use the installation. */
export const tenant = 'team-a';
export const values = ['--set=insecureRegistries.enabled=true', '--set=api.service.type=NodePort'];

/** The chart, applied to a control plane of its own. */
export interface Installation {
  readonly admin: RootClient;
  /** With all rights. */
  readonly kubeconfigPath: string;
  /** What was applied. */
  readonly manifest: string;
  kubectl(...args: string[]): Promise<string>;
  /** A client with a real token of a ServiceAccount, bound to a pod where one is named. */
  identity(namespace: string, name: string, pod?: Pod): Promise<KubeClient>;
  /** A ServiceAccount in the tenant's namespace with these rights there. */
  tenantUser(name: string, rules: PolicyRule[], clusterRole?: string): Promise<KubeClient>;
  /** A ServiceAccount in the tenant's namespace that has a ClusterRole everywhere. */
  clusterUser(name: string, clusterRole: string): Promise<KubeClient>;
  remove(): Promise<void>;
}

/** @param apiServerFlags - added to those of kube-apiserver; of two equal ones the later wins */
export async function install(apiServerFlags: readonly string[] = []): Promise<Installation> {
  const controlPlane = await ownControlPlane({ components: ['kube-controller-manager'], apiServerFlags });
  const tools = await ensureTools('controlplane');
  const { kubeconfigPath, dir } = controlPlane;
  const admin = createClient(await loadKubeconfig(kubeconfigPath));
  const kubectl = async (...args: string[]) =>
    (await run(tools.path('kubectl'), ['--kubeconfig', kubeconfigPath, ...args])).stdout;
  await admin.create(namespaces, {
    metadata: { name: 'svc3-system', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } },
  });
  await admin.create(namespaces, { metadata: { name: tenant } });
  const manifest = join(dir, 'svc3.yaml');
  await writeFile(manifest, await helmTemplate('--no-hooks', ...values));
  await kubectl('apply', '--server-side', '-f', manifest);
  await kubectl('wait', '--for=condition=Established', '--all', 'crd', '--timeout=60s');
  return {
    admin,
    kubeconfigPath,
    manifest,
    kubectl,
    ...identitiesOf(admin),
    async remove() {
      await admin.close();
      await controlPlane.remove();
    },
  };
}

function identitiesOf(admin: RootClient): Pick<Installation, 'identity' | 'tenantUser' | 'clusterUser'> {
  async function identity(namespace: string, name: string, pod?: Pod): Promise<KubeClient> {
    const { body } = await admin.request<TokenRequest>({
      method: 'POST',
      path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: {
          expirationSeconds: 3600,
          ...(pod === undefined
            ? {}
            : {
                boundObjectRef: {
                  apiVersion: 'v1',
                  kind: 'Pod',
                  name: pod.metadata.name,
                  uid: pod.metadata.uid,
                },
              }),
        },
      },
    });
    return admin.withToken(body.status!.token!);
  }

  async function tenantUser(name: string, rules: PolicyRule[], clusterRole?: string): Promise<KubeClient> {
    await admin.create(serviceAccounts, { metadata: { name, namespace: tenant } });
    const subjects = [{ kind: 'ServiceAccount' as const, name, namespace: tenant }];
    const roleRef = (kind: 'Role' | 'ClusterRole', roleName: string) => ({
      apiGroup: 'rbac.authorization.k8s.io',
      kind,
      name: roleName,
    });
    if (rules.length > 0) {
      await admin.create(roles, { metadata: { name, namespace: tenant }, rules });
      await admin.create(roleBindings, {
        metadata: { name, namespace: tenant },
        roleRef: roleRef('Role', name),
        subjects,
      });
    }
    if (clusterRole !== undefined) {
      const metadata = { name: `${name}-${clusterRole}`, namespace: tenant };
      await admin.create(roleBindings, { metadata, roleRef: roleRef('ClusterRole', clusterRole), subjects });
    }
    return identity(tenant, name);
  }

  async function clusterUser(name: string, clusterRole: string): Promise<KubeClient> {
    await admin.create(serviceAccounts, { metadata: { name, namespace: tenant } });
    await admin.create(clusterRoleBindings, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: clusterRole },
      subjects: [{ kind: 'ServiceAccount', name, namespace: tenant }],
    });
    return identity(tenant, name);
  }

  return { identity, tenantUser, clusterUser };
}

/** `ok`, or the reason of the refusal. Rights that were just given take a moment, so callers poll. */
export async function outcome(write: Promise<unknown>): Promise<string> {
  return write.then(
    () => 'ok',
    (error: Error) => error.message,
  );
}

/** Every right that a Role can give. */
export const everything: PolicyRule[] = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
