import type { Subject } from '../api/core.ts';
import { labels } from '../api/meta.ts';
import { roleBindings, serviceAccounts } from '../api/resources.ts';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import type { AccountRole, ServiceAccountItem } from '../wire/schemas.ts';
import { writing } from './writing.ts';

export interface AccountRequest {
  readonly namespace: string;
  readonly name: string;
  /** Undefined: `svc3-edit` where the caller may bind it, else none. */
  readonly role?: AccountRole | undefined;
}

const rbac = 'rbac.authorization.k8s.io';
const defaultRole = 'svc3-edit';

/**
 * The service accounts of a namespace.
 *
 * @param caller - whose right it is to see them
 */
export async function listServiceAccounts(
  caller: KubeClient,
  namespace: string,
): Promise<ServiceAccountItem[]> {
  const { items } = await caller.list(serviceAccounts, {
    namespace,
    // An account may have a megabyte of labels and pull Secrets, and the api lists for many at the same time.
    transform: ({ metadata: { annotations: _annotations, labels: _labels, ...metadata } }) => ({ metadata }),
  });
  return items.map(({ metadata: { name, creationTimestamp = '' } }) => ({
    name,
    createdAt: creationTimestamp,
  }));
}

/**
 * Creates a ServiceAccount with the caller's rights, and binds it a role in its namespace. The binding is named after the
 * account's UID and owned by it: it goes with the account, and a new account of the name does not inherit it.
 *
 * @returns the role that was bound; `warning` hears that the default could not be
 * @throws Forbidden where the caller may not bind a role that was asked for; then there is no account either
 */
export async function createServiceAccount(
  caller: KubeClient,
  { namespace, name, role }: AccountRequest,
  warning: (text: string) => void,
): Promise<AccountRole> {
  const account = await writing(() => caller.create(serviceAccounts, { metadata: { name, namespace } }), {
    'metadata.name': 'serviceaccount',
  });
  const { uid } = account.metadata;
  const bound = role ?? defaultRole;
  if (bound === 'none') return bound;
  try {
    await bind(caller, { namespace, name, uid, role: bound });
    return bound;
  } catch (error) {
    const isOptional = role === undefined && isSvc3Error(error, 'Forbidden', 'NotFound');
    if (!isOptional) {
      await caller.delete(serviceAccounts, { name, namespace }, { uid });
      throw isSvc3Error(error, 'Forbidden') ? notBound(error, bound, namespace) : error;
    }
    warning(
      `service account ${name} has no rights: you may not bind ${bound} in namespace ${namespace}; somebody who may can do it with kubectl create rolebinding`,
    );
    return 'none';
  }
}

function notBound(error: Svc3Error, role: string, namespace: string): Svc3Error {
  const message = `you may not bind ${role} in namespace ${namespace}, and no service account was created: ${error.message}`;
  return new Svc3Error('Forbidden', message, { details: error.details, cause: error });
}

async function bind(
  caller: KubeClient,
  { namespace, name, uid, role }: { namespace: string; name: string; uid: string; role: string },
): Promise<void> {
  const self: Subject = { kind: 'ServiceAccount', name, namespace };
  await caller.create(roleBindings, {
    metadata: {
      name: `svc3-account-${uid}`,
      namespace,
      labels: { [labels.partOf]: 'svc3' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'ServiceAccount', name, uid }],
    },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
    subjects: [self],
  });
}
