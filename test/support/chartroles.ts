/** The roles that the chart has for people, as `helm template` renders them, and people who have them. */
import { expect, vi } from 'vitest';
import type { ClusterRole } from '../../src/api/core.ts';
import { namespaces as names } from '../../src/api/meta.ts';
import { namespaces, roleBindings, roles } from '../../src/api/resources.ts';
import { clusterRoles } from './resources.ts';
import { isSvc3Error } from '../../src/errors.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { rendered, type Rendered } from '../integration/chart/helm.ts';
import { endingIn, identity } from './identity.ts';

/** Each by itself: a cluster administrator of svc3 is bound everywhere, and to the logins of registries as well. */
const alone = ['svc3-view', 'svc3-edit', 'svc3-admin', 'svc3-cluster-admin'] as const;
/** Kubernetes' own, which the chart's have joined. */
const joined = ['view', 'edit', 'admin'] as const;
const credentialsRole = 'svc3-credentials-admin';
const joins = 'rbac.authorization.k8s.io/';
/** For a hook, which has no `expect.poll`. */
const soon = { timeout: 60_000, interval: 100 };

/**
 * What a role gives: `view` and `edit` of svc3's kinds in a namespace, `administer` them in the whole cluster; what the chart leaves to
 * Kubernetes' roles: to `seeAccounts` and to `makeAccounts`; `all` that there is.
 */
export type Level = 'view' | 'edit' | 'administer' | 'seeAccounts' | 'makeAccounts' | 'all';

/** Whoever may call, and what they may do in the namespace of the test. */
export const people = {
  'no token': [],
  'an expired token': [],
  'a token for another audience': [],
  'no role': [],
  "another namespace's admin": [],
  'svc3-view': ['view'],
  'svc3-edit': ['view', 'edit'],
  'svc3-admin': ['view', 'edit'],
  'svc3-cluster-admin': ['view', 'edit', 'administer'],
  view: ['view', 'seeAccounts'],
  edit: ['view', 'edit', 'seeAccounts', 'makeAccounts'],
  admin: ['view', 'edit', 'seeAccounts', 'makeAccounts'],
  'cluster-admin': ['view', 'edit', 'administer', 'seeAccounts', 'makeAccounts', 'all'],
} as const satisfies Readonly<Record<string, readonly Level[]>>;
export type Person = keyof typeof people;

export const everybody = Object.keys(people) as Person[];
/** Those of whom kube-apiserver does not know who they are. */
export const unauthenticated: ReadonlySet<Person> = new Set<Person>([
  'no token',
  'an expired token',
  'a token for another audience',
]);

export function has(who: Person, level: Level): boolean {
  return (people[who] as readonly Level[]).includes(level);
}

/** One of each set of rights, of those who can sign in. */
export const oneOfEach = everybody
  .filter((who) => !unauthenticated.has(who))
  .filter((who, at, all) => all.findIndex((other) => people[other].join() === people[who].join()) === at);

export interface ChartPeople {
  readonly tokens: ReadonlyMap<Person, string | undefined>;
  /** Takes the roles away. */
  remove(): Promise<void>;
}

interface Options {
  readonly client: RootClient;
  readonly kubeconfigPath: string;
  /** Where they have their roles. The roles are named after it: other tests may be at work in this cluster. */
  readonly namespace: string;
  /** Where one has a role that is good for nothing in `namespace`. */
  readonly elsewhere: string;
}

/** Installs the roles and resolves to people who have them, once kube-apiserver goes by that. */
export async function chartPeople({
  client,
  kubeconfigPath,
  namespace,
  elsewhere,
}: Options): Promise<ChartPeople> {
  const chart = await rendered();
  const called = (role: string) => `${namespace}-${role}`;
  const copies: ClusterRole[] = [];
  for (const role of alone) copies.push(await copyRole(client, named(chart, role), called(role), namespace));
  for (const role of joined) await joinRole(client, role, called(role), namespace, copies);
  await copyCredentialsRole(client, named(chart, credentialsRole), called(credentialsRole));

  const tokens = new Map<Person, string | undefined>();
  for (const role of [...alone, ...joined]) {
    const bound = role === 'svc3-cluster-admin' ? { clusterRole: called(role) } : { role: called(role) };
    tokens.set(role, await identity(client, role, { namespace, ...bound }));
  }
  await bindCredentialsRole(client, namespace, called(credentialsRole));
  const outsider = { namespace: elsewhere, role: called('admin') };
  tokens.set("another namespace's admin", await identity(client, 'outsider', outsider));
  tokens.set('no role', await identity(client, 'nobody', { namespace }));
  const root = { namespace, clusterRole: 'cluster-admin' };
  tokens.set('cluster-admin', await identity(client, 'root', root));
  const audiences = ['elsewhere'];
  tokens.set('a token for another audience', await identity(client, 'audience', { ...root, audiences }));
  tokens.set('an expired token', await endingIn(-3_600, tokens.get('cluster-admin') ?? '', kubeconfigPath));
  tokens.set('no token', undefined);
  for (const who of everybody) await untilTheyMay(client, who, tokens.get(who), namespace);
  return {
    tokens,
    async remove() {
      for (const role of [...alone, ...joined]) await client.delete(clusterRoles, { name: called(role) });
      await client.delete(roles, { name: called(credentialsRole), namespace: names.credentials });
    },
  };
}

function named(chart: readonly Rendered[], name: string): Rendered {
  const found = chart.find(({ kind, metadata }) => kind.endsWith('Role') && metadata.name === name);
  if (found === undefined) throw new Error(`the chart has no role ${name}`);
  return found;
}

/** Labels by which Kubernetes' roles would select a role, as labels of this test: those of the cluster stay as they are for others. */
function ownLabels(labels: Readonly<Record<string, string>> = {}, namespace: string): Record<string, string> {
  const joining = Object.entries(labels).filter(([key]) => key.startsWith(joins));
  return Object.fromEntries(joining.map(([key, value]) => [key.replace(joins, `${namespace}/`), value]));
}

function copyRole(
  client: KubeClient,
  { metadata, rules = [] }: Rendered,
  name: string,
  namespace: string,
): Promise<ClusterRole> {
  const labels = ownLabels(metadata.labels, namespace);
  return client.create(clusterRoles, { metadata: { name, labels }, rules });
}

/** A role that selects what Kubernetes' does, and the copies; kube-controller-manager joins them, as it joins the chart's. */
async function joinRole(
  client: KubeClient,
  role: string,
  name: string,
  namespace: string,
  copies: readonly ClusterRole[],
): Promise<void> {
  const kubernetes = await client.get(clusterRoles, role);
  const selectors = kubernetes.aggregationRule?.clusterRoleSelectors ?? [];
  const own = selectors.map(({ matchLabels }) => ({ matchLabels: ownLabels(matchLabels, namespace) }));
  const aggregationRule = { clusterRoleSelectors: [...selectors, ...own] };
  await client.create(clusterRoles, { metadata: { name }, aggregationRule, rules: [] });
  const isJoined = ({ metadata }: ClusterRole): boolean =>
    own.some(({ matchLabels }) =>
      Object.entries(matchLabels).every(([key, value]) => metadata.labels?.[key] === value),
    );
  const wanted = copies.filter(isJoined).flatMap(({ rules = [] }) => rules);
  expect(wanted).not.toEqual([]);
  const missing = async () => {
    const present = (await client.get(clusterRoles, name)).rules ?? [];
    const theirs = (await client.get(clusterRoles, role)).rules ?? [];
    const texts = new Set(present.map((rule) => JSON.stringify(rule)));
    return [...wanted, ...theirs].filter((rule) => !texts.has(JSON.stringify(rule)));
  };
  await vi.waitFor(async () => expect(await missing()).toEqual([]), soon);
}

async function copyCredentialsRole(client: KubeClient, { rules = [] }: Rendered, name: string) {
  const namespace = names.credentials;
  await client.create(namespaces, { metadata: { name: namespace } }).catch((error: unknown) => {
    if (!isSvc3Error(error, 'AlreadyExists')) throw error;
  });
  await client.create(roles, { metadata: { name, namespace }, rules });
}

async function bindCredentialsRole(client: KubeClient, home: string, role: string): Promise<void> {
  await client.create(roleBindings, {
    metadata: { name: role, namespace: names.credentials },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: role },
    subjects: [{ kind: 'ServiceAccount', name: 'svc3-cluster-admin', namespace: home }],
  });
}

/** A right of each level that is asked for at kube-apiserver, which hears of roles and bindings a moment after they were written. */
const examples: Readonly<Partial<Record<Level, { group: string; resource: string; verb: string }>>> = {
  view: { group: 'svc3.dev', resource: 'vms', verb: 'list' },
  edit: { group: 'svc3.dev', resource: 'vms', verb: 'create' },
  seeAccounts: { group: '', resource: 'serviceaccounts', verb: 'list' },
  makeAccounts: { group: '', resource: 'serviceaccounts', verb: 'create' },
};

async function untilTheyMay(
  client: RootClient,
  who: Person,
  token: string | undefined,
  namespace: string,
): Promise<void> {
  if (token === undefined || unauthenticated.has(who)) return;
  for (const level of people[who]) {
    const right = examples[level];
    if (right === undefined) continue;
    const resourceAttributes = { ...right, namespace };
    const ask = async () => {
      const { body } = await client.withToken(token).request<{ status?: { allowed?: boolean } }>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
        body: { spec: { resourceAttributes } },
      });
      return body.status?.allowed;
    };
    await vi.waitFor(
      async () => expect({ who, right, allowed: await ask() }).toMatchObject({ allowed: true }),
      soon,
    );
  }
}
