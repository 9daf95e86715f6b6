import type { Subject } from '../api/core.ts';
import { annotations, labels } from '../api/meta.ts';
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

type BoundRole = Exclude<AccountRole, 'none'>;

/** The account that a role is bound to. */
interface Account {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/**
 * Creates a ServiceAccount with the caller's rights, and binds it a role in its namespace. The binding is named after the
 * account's UID and owned by it: it goes with the account, and a new account of the name does not inherit it. An account whose
 * creation for the same role broke off before that was bound is completed.
 *
 * @returns the role that was bound; `warning` hears that the default could not be
 * @throws Forbidden where the caller may not bind a role that was asked for; then there is no account either, if they may delete it
 */
export async function createServiceAccount(
  caller: KubeClient,
  request: AccountRequest,
  warning: (text: string) => void,
): Promise<AccountRole> {
  const role = request.role ?? defaultRole;
  if (role === 'none') {
    await create(caller, request, {});
    return role;
  }
  let account: Account;
  try {
    account = await create(caller, request, { [annotations.accountRole]: role });
  } catch (error) {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
    await complete(caller, request, role, error);
    return role;
  }
  try {
    await bind(caller, account, role);
  } catch (error) {
    if (request.role !== undefined || !isSvc3Error(error, 'Forbidden', 'NotFound'))
      throw await withdrawn(caller, account, role, error);
    await finishCreation(caller, account);
    const { namespace, name } = account;
    warning(
      `service account ${name} has no rights: you may not bind ${role} in namespace ${namespace}; somebody who may can do it with kubectl create rolebinding`,
    );
    return 'none';
  }
  await finishCreation(caller, account);
  return role;
}

async function create(
  caller: KubeClient,
  { namespace, name }: AccountRequest,
  notes: Readonly<Record<string, string>>,
): Promise<Account> {
  const submitted = { metadata: { name, namespace, annotations: notes } };
  const { metadata } = await writing(() => caller.create(serviceAccounts, submitted), {
    'metadata.name': 'serviceaccount',
  });
  return { namespace, name, uid: metadata.uid };
}

/**
 * Binds the account that has the name its role, where that was to be the same and was never bound.
 *
 * @throws `taken` where it was
 */
async function complete(
  caller: KubeClient,
  request: AccountRequest,
  role: BoundRole,
  taken: Svc3Error,
): Promise<void> {
  const { namespace, name } = request;
  // Who may not see it cannot know more than that it is there.
  const found = await caller.get(serviceAccounts, name, namespace).catch(() => undefined);
  const isLeft = found?.metadata.annotations?.[annotations.accountRole] === role;
  if (found === undefined || !isLeft || found.metadata.deletionTimestamp !== undefined) throw taken;
  const account = { namespace, name, uid: found.metadata.uid };
  let isNew: boolean;
  try {
    isNew = await bind(caller, account, role);
  } catch (error) {
    if (!isSvc3Error(error, 'Forbidden', 'NotFound')) throw error;
    throw request.role === undefined ? taken : notBound(error, account, role, 'stays without a role');
  }
  await finishCreation(caller, account);
  if (!isNew) throw taken;
}

/** Removes the note that the creation of the account is under way: what is taken from it later stays taken. A caller who may not change it leaves the note. */
async function finishCreation(caller: KubeClient, { namespace, name, uid }: Account): Promise<void> {
  const body = { metadata: { uid, annotations: { [annotations.accountRole]: null } } };
  await caller.patch(serviceAccounts, { name, namespace }, { type: 'merge', body }).catch(() => undefined);
}

/** Takes an account back whose role could not be bound; what its creation fails with. */
async function withdrawn(
  caller: KubeClient,
  account: Account,
  role: BoundRole,
  error: unknown,
): Promise<unknown> {
  const { namespace, name, uid } = account;
  const isLeft = await caller.delete(serviceAccounts, { name, namespace }, { uid }).then(
    () => false,
    (failure: unknown) => !isSvc3Error(failure, 'NotFound', 'Conflict'),
  );
  if (isSvc3Error(error, 'Forbidden'))
    return notBound(error, account, role, isLeft ? 'stays without a role' : 'was not created');
  if (!isLeft || !isSvc3Error(error)) return error;
  const message = `${error.message}; service account ${name} stays without a role: ask for ${role} once more, or delete it`;
  return new Svc3Error(error.reason, message, { details: error.details, cause: error });
}

/** @param outcome - what becomes of the account */
function notBound(
  error: Svc3Error,
  { namespace, name }: Account,
  role: BoundRole,
  outcome: 'was not created' | 'stays without a role',
): Svc3Error {
  const message = `you may not bind ${role} in namespace ${namespace}, and service account ${name} ${outcome}: ${error.message}`;
  return new Svc3Error(error.reason, message, { details: error.details, cause: error });
}

/** @returns false where its role was bound before, as by the same request that was sent once more meanwhile */
async function bind(
  caller: KubeClient,
  { namespace, name, uid }: Account,
  role: BoundRole,
): Promise<boolean> {
  const self: Subject = { kind: 'ServiceAccount', name, namespace };
  const binding = {
    metadata: {
      name: `svc3-account-${uid}`,
      namespace,
      labels: { [labels.partOf]: 'svc3' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'ServiceAccount', name, uid }],
    },
    roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: role },
    subjects: [self],
  };
  try {
    await caller.create(roleBindings, binding);
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'AlreadyExists')) return false;
    throw error;
  }
}
