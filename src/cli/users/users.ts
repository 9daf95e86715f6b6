import { annotations, labels, limits, namespaces } from '../../api/meta.ts';
import {
  clusterRoleBindings,
  namespaces as namespaceKind,
  roleBindings,
  roles,
  selfSubjectReviews,
  serviceAccounts,
} from '../../api/resources.ts';
import type { ServiceAccount, SelfSubjectReview, Subject } from '../../api/core.ts';
import type { KubeObject, Resource, Stored } from '../../api/object.ts';
import { ifFound, invalidField, isSvc3Error, Svc3Error } from '../../errors.ts';
import type { KubeClient } from '../../kube/types.ts';
import { issueToken } from '../../usecases/token.ts';
import type { Caller } from './caller.ts';
import { accountOf } from './names.ts';

export interface UserItem {
  readonly name: string;
  /** Name of the ServiceAccount in `svc3-users`. */
  readonly account: string;
  readonly createdAt?: string;
}

export interface UserToken {
  readonly token: string;
  readonly expirationTimestamp: string;
}

export interface Rights {
  readonly clusterAdmin: boolean;
  /** ClusterRole that is bound in `namespaces`. */
  readonly role: string;
  readonly namespaces: readonly string[];
  /** Gives an account that this person has already what it lacks; default false: AlreadyExists. */
  readonly completes?: boolean;
}

export interface UsersOptions {
  readonly client: KubeClient;
  readonly server: string;
  readonly context: string;
  /** Whose kubeconfig it is, as `callerOf` has it. */
  readonly caller: Caller;
  ownBearer(): Promise<{ readonly token: string; readonly expirationTimestamp?: string } | undefined>;
  warning(text: string): void;
}

/** Who waits for a token has something else in mind. */
const answerMs = 5000;

const group = 'rbac.authorization.k8s.io';

/** Name of everything that gives an account of `svc3-users` a right. */
const rightsName = (account: string) => `svc3-user-${account}`;

/** People as ServiceAccounts of `svc3-users` (spec: "Authentication" 2, 4 and 5). */
export function createUsers(options: UsersOptions) {
  const { client, server, context, caller } = options;
  const taken = new Map<string, Promise<boolean>>();
  let asked: Promise<string> | undefined;
  // Asked once: it is wanted with every request.
  const person = (): Promise<string> =>
    (asked ??= ownName(client).catch((error: unknown) => {
      asked = undefined;
      throw error;
    }));
  return {
    async list(): Promise<UserItem[]> {
      const selector = `${labels.user}=true`;
      const { items } = await client.list(serviceAccounts, {
        namespace: namespaces.users,
        labelSelector: selector,
      });
      return items.map(userItem);
    },
    add: (name: string, rights: Rights) => addUser(client, name, rights),
    remove: (name: string) => removeUser(client, name),
    ownName: () => ownName(client),
    async token({ name }: { readonly name?: string }) {
      const issued = await userToken(options, name);
      taken.set(issued.token, Promise.resolve(true));
      return issued;
    },
    async ownToken() {
      const bearer = await options.ownBearer();
      if (bearer !== undefined) return bearer;
      throw new Svc3Error(
        'BadRequest',
        'the kubeconfig has no bearer token: its user is known by a client certificate or a password',
      );
    },
    async cacheKey(name?: string) {
      const own = caller.varies ? await person() : '';
      return JSON.stringify([server, context, caller.key, own, name ?? '']);
    },
    isTaken(token: string) {
      const answer = taken.get(token) ?? isTaken(client, token);
      taken.set(token, answer);
      return answer;
    },
  };
}

function userItem({ metadata: { name, annotations: found, creationTimestamp } }: ServiceAccount): UserItem {
  return {
    name: found?.[annotations.displayName] ?? name,
    account: name,
    ...(creationTimestamp === undefined ? {} : { createdAt: creationTimestamp }),
  };
}

/**
 * The account, the right to mint its own tokens, and what else the person may do; applied, so that it can be repeated. An account
 * that is made has no right of an earlier one of its name.
 */
async function addUser(client: KubeClient, user: string, rights: Rights): Promise<UserItem> {
  const account = accountOf(user);
  const marks = { [labels.user]: 'true', [labels.partOf]: 'svc3' };
  for (const namespace of rights.namespaces) await requireNamespace(client, namespace);
  await takeAwayFormer(client, account);
  const created = await createAccount(client, account, user, rights.completes === true);
  const name = rightsName(account);
  const person: Subject = { kind: 'User', apiGroup: group, name: user };
  const self: Subject = { kind: 'ServiceAccount', name: account, namespace: namespaces.users };
  const metadata = { name, namespace: namespaces.users, labels: marks };
  await client.apply(roles, {
    metadata,
    rules: [
      { apiGroups: [''], resources: ['serviceaccounts/token'], resourceNames: [account], verbs: ['create'] },
    ],
  });
  const ownRole = { apiGroup: group, kind: 'Role' as const, name };
  await client.apply(roleBindings, { metadata, roleRef: ownRole, subjects: [person, self] });
  for (const namespace of rights.namespaces) {
    const roleRef = { apiGroup: group, kind: 'ClusterRole' as const, name: rights.role };
    await client.apply(roleBindings, {
      metadata: { name, namespace, labels: marks },
      roleRef,
      subjects: [self],
    });
  }
  if (rights.clusterAdmin) {
    const roleRef = { apiGroup: group, kind: 'ClusterRole' as const, name: 'cluster-admin' };
    await client.apply(clusterRoleBindings, { metadata: { name, labels: marks }, roleRef, subjects: [self] });
  }
  return userItem(created);
}

/** @throws AlreadyExists where there is one, unless it is this person's and `mayExist` */
async function createAccount(
  client: KubeClient,
  account: string,
  user: string,
  mayExist: boolean,
): Promise<ServiceAccount> {
  try {
    return await client.create(serviceAccounts, {
      metadata: {
        name: account,
        namespace: namespaces.users,
        labels: { [labels.user]: 'true', [labels.partOf]: 'svc3' },
        annotations: { [annotations.displayName]: user },
      },
      automountServiceAccountToken: false,
    });
  } catch (error) {
    if (!mayExist || !isSvc3Error(error, 'AlreadyExists')) throw error;
    const existing = await client.get(serviceAccounts, account, namespaces.users);
    const owner = existing.metadata.annotations?.[annotations.displayName];
    if (existing.metadata.labels?.[labels.user] === 'true' && owner === user) return existing;
    const whose = owner === undefined ? 'of no user of svc3' : `of user ${owner}`;
    const message = `ServiceAccount ${account} in ${namespaces.users} is ${whose}; delete it or choose another user name`;
    throw new Svc3Error('AlreadyExists', message, { cause: error });
  }
}

async function requireNamespace(client: KubeClient, name: string): Promise<void> {
  try {
    await client.get(namespaceKind, name);
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    throw invalidField('namespace', `namespace ${name} does not exist`);
  }
}

/**
 * The account goes first: from then on its tokens are dead, whatever happens to the rest. A removal that broke off is finished by
 * the next one.
 *
 * @throws NotFound where there is neither an account nor a right of that name
 */
async function removeUser(client: KubeClient, user: string): Promise<void> {
  const account = accountOf(user);
  let gone: Svc3Error | undefined;
  try {
    await client.delete(serviceAccounts, { name: account, namespace: namespaces.users });
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    gone = error;
  }
  const rights = await rightsOf(client, account);
  if (gone !== undefined && rights.length === 0)
    throw new Svc3Error('NotFound', `no user ${user}`, { cause: gone });
  await takeAway(client, rights);
}

/** What is left of an account that is gone: one of its name would inherit it. */
async function takeAwayFormer(client: KubeClient, account: string): Promise<void> {
  const former = await rightsOf(client, account);
  if (former.length === 0) return;
  // Asked after the list: what is in it is then of no account that somebody else adds meanwhile.
  const present = await ifFound(client.get(serviceAccounts, account, namespaces.users));
  if (present === undefined) await takeAway(client, former);
}

interface Right {
  readonly resource: Resource<KubeObject>;
  readonly key: { readonly name: string; readonly namespace?: string };
  readonly uid: string;
}

/** Those in the whole cluster first. */
const kindsOfRights: readonly Resource<Stored<KubeObject>>[] = [clusterRoleBindings, roleBindings, roles];

/** What svc3 has made to give an account its rights, in the order in which it is taken away. */
async function rightsOf(client: KubeClient, account: string): Promise<Right[]> {
  const name = rightsName(account);
  const made = { labelSelector: `${labels.user}=true`, fieldSelector: `metadata.name=${name}` };
  const rights: Right[] = [];
  for (const resource of kindsOfRights)
    for (const { metadata } of (await client.list(resource, made)).items) {
      const { namespace, uid } = metadata;
      rights.push({ resource, key: { name, ...(namespace === undefined ? {} : { namespace }) }, uid });
    }
  return rights;
}

/** In their order. One that is gone is passed over, and so is another object that has its name by now. */
async function takeAway(client: KubeClient, rights: readonly Right[]): Promise<void> {
  for (const { resource, key, uid } of rights)
    try {
      await client.delete(resource, key, { uid });
    } catch (error) {
      if (!isSvc3Error(error, 'NotFound', 'Conflict')) throw error;
    }
}

async function userToken({ client, warning }: UsersOptions, name: string | undefined): Promise<UserToken> {
  const user = name ?? (await ownName(client));
  const key = { namespace: namespaces.users, name: accountOf(user) };
  try {
    const options = { expirationSeconds: limits.userTokenSeconds };
    return await issueToken({ caller: client, warn: warning }, key, options);
  } catch (error) {
    if (isSvc3Error(error, 'NotFound', 'Forbidden')) {
      const hint = 'a cluster administrator makes one with svc3 user add';
      throw new Svc3Error(
        error.reason,
        `user ${user} has no account in svc3, or not the right to its token; ${hint} ${JSON.stringify(user)}`,
        { cause: error },
      );
    }
    throw error;
  }
}

/** No refusal but Unauthorized is about the token itself. */
async function isTaken(client: KubeClient, token: string): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(answerMs);
    await client.withToken(token).create(selfSubjectReviews, {}, { signal });
    return true;
  } catch (error) {
    return !isSvc3Error(error, 'Unauthorized');
  }
}

async function ownName(client: KubeClient): Promise<string> {
  const review: SelfSubjectReview = await client.create(selfSubjectReviews, {});
  const name = review.status?.userInfo?.username;
  if (name === undefined || name === '')
    throw new Svc3Error('Unauthorized', 'kube-apiserver does not know who you are');
  return name;
}
