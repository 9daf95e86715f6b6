import { createPrivateKey, sign } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { clusterRoles } from '../../../src/api/resources.ts';
import type { Route } from '../../../src/http/server/route.ts';
import { routes } from '../../../src/http/routes/table.ts';
import { pageRoutes } from '../../../src/http/ui/routes.ts';
import { startTestApi, type CallOptions, type TestApi } from '../../support/api.ts';
import { identity } from '../../support/identity.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

/** The least role that may call each route. A route without a row fails the first test. */
const leastRole: Readonly<Record<string, 'open' | 'viewer' | 'editor' | 'cluster'>> = {
  listVms: 'viewer',
  getVm: 'viewer',
  deployVm: 'editor',
  patchVm: 'editor',
  deleteVm: 'editor',
  execVm: 'editor',
  saveVm: 'editor',
  commitVm: 'editor',
  ejectVm: 'editor',
  explainVm: 'viewer',
  getVmUsage: 'viewer',
  openConsole: 'editor',
  streamConsole: 'editor',
  streamSerial: 'editor',
  streamTunnel: 'editor',
  listAllVms: 'cluster',
  listVmConfigs: 'viewer',
  getVmConfig: 'viewer',
  createVmConfig: 'editor',
  deleteVmConfig: 'editor',
  listAllVmConfigs: 'cluster',
  listVmPools: 'viewer',
  getVmPool: 'viewer',
  createVmPool: 'editor',
  patchVmPool: 'editor',
  scaleVmPool: 'editor',
  deleteVmPool: 'editor',
  listNodes: 'viewer',
  getNode: 'viewer',
  tagNode: 'cluster',
  untagNode: 'cluster',
  assignNode: 'cluster',
  allowGpuPassthrough: 'cluster',
  listImages: 'viewer',
  getImage: 'viewer',
  generateImage: 'editor',
  deleteImage: 'editor',
  copyImage: 'editor',
  describeImage: 'editor',
  downloadImage: 'editor',
  uploadImage: 'editor',
  getImageUpload: 'editor',
  appendImageUpload: 'editor',
  cancelImageUpload: 'editor',
  listAllImages: 'cluster',
  listIsos: 'viewer',
  getIso: 'viewer',
  deleteIso: 'editor',
  copyIso: 'editor',
  describeIso: 'editor',
  downloadIso: 'editor',
  uploadIso: 'editor',
  getIsoUpload: 'editor',
  appendIsoUpload: 'editor',
  cancelIsoUpload: 'editor',
  listRemoteImages: 'viewer',
  pullImage: 'editor',
  listRemoteIsos: 'viewer',
  pullIso: 'editor',
  listRegistryCredentials: 'cluster',
  addRegistryCredential: 'cluster',
  removeRegistryCredential: 'cluster',
  listServiceAccounts: 'viewer',
  createServiceAccount: 'editor',
  deleteServiceAccount: 'editor',
  createServiceAccountToken: 'editor',
  getClusterInfo: 'open',
  getOidcClient: 'open',
  uploadCertificate: 'cluster',
};

const identities = {
  'no token': [],
  'an expired token': [],
  'a token for another audience': [],
  viewer: ['viewer'],
  editor: ['viewer', 'editor'],
  'namespace admin': ['viewer', 'editor'],
  "another namespace's admin": [],
  'cluster admin': ['viewer', 'editor', 'cluster'],
} as const;
type Identity = keyof typeof identities;
const unauthenticated = new Set<Identity>(['no token', 'an expired token', 'a token for another audience']);

let cluster: TestCluster;
let api: TestApi;
let namespace: string;
const tokens = new Map<Identity, string | undefined>();

/** The chart's rules for users, joined to a role as kube-controller-manager joins them to view and edit. */
const viewRules = [
  {
    apiGroups: ['svc3.dev'],
    resources: ['vms', 'vmconfigs', 'vmpools', 'images', 'isos'],
    verbs: ['get', 'list', 'watch'],
  },
  { apiGroups: ['api.svc3.dev'], resources: ['nodes'], verbs: ['get', 'list'] },
  { apiGroups: [''], resources: ['serviceaccounts'], verbs: ['get', 'list', 'watch'] },
];
const editRules = [
  ...viewRules,
  {
    apiGroups: ['svc3.dev'],
    resources: ['vms', 'vmconfigs', 'vmpools', 'images', 'isos'],
    verbs: ['create', 'update', 'patch', 'delete'],
  },
  {
    apiGroups: ['api.svc3.dev'],
    resources: ['vms/exec', 'vms/save', 'vms/commit', 'vms/console', 'vms/tunnel', 'images/upload'],
    verbs: ['create'],
  },
  { apiGroups: ['api.svc3.dev'], resources: ['images/download'], verbs: ['get'] },
  {
    apiGroups: [''],
    resources: ['serviceaccounts', 'serviceaccounts/token'],
    verbs: ['create', 'update', 'patch', 'delete'],
  },
];
const adminRules = [...editRules, { apiGroups: ['svc3.dev'], resources: ['*'], verbs: ['*'] }];

/** A token that was good once: signed with the cluster's own key, its time over. */
function expiredToken(valid: string): string {
  const key = ['sa.key', 'service-account.key', 'serviceaccount.key']
    .map((file) => join(dirname(cluster.kubeconfigPath), 'pki', file))
    .find((file) => existsSync(file));
  const [header = '', payload = ''] = valid.split('.');
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>;
  const past = Math.floor(Date.now() / 1000) - 3_600;
  const old = { ...claims, iat: past - 600, nbf: past - 600, exp: past };
  const signed = `${header}.${Buffer.from(JSON.stringify(old)).toString('base64url')}`;
  if (key === undefined)
    throw new Error('the control plane of the test has no key for service accounts where this test looks');
  const algorithm = (JSON.parse(Buffer.from(header, 'base64url').toString()) as { alg: string }).alg;
  const privateKey = createPrivateKey(readFileSync(key));
  const signature =
    algorithm === 'ES256'
      ? sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      : sign('sha256', Buffer.from(signed), privateKey);
  return `${signed}.${signature.toString('base64url')}`;
}

beforeAll(async () => {
  cluster = await testCluster();
  const { client } = cluster;
  namespace = await uniqueNamespace(client, 'matrix');
  const elsewhere = await uniqueNamespace(client, 'matrix-other');
  for (const [name, rules] of [
    ['view', viewRules],
    ['edit', editRules],
    ['admin', adminRules],
  ] as const) {
    await client.create(clusterRoles, {
      metadata: { name: `${namespace}-${name}` },
      rules,
    });
  }
  tokens.set('viewer', await identity(client, 'viewer', { namespace, role: `${namespace}-view` }));
  tokens.set('editor', await identity(client, 'editor', { namespace, role: `${namespace}-edit` }));
  tokens.set('namespace admin', await identity(client, 'admin', { namespace, role: `${namespace}-admin` }));
  tokens.set(
    "another namespace's admin",
    await identity(client, 'outsider', { namespace: elsewhere, role: `${namespace}-admin` }),
  );
  tokens.set('cluster admin', await identity(client, 'root', { namespace, clusterRole: 'cluster-admin' }));
  tokens.set(
    'a token for another audience',
    await identity(client, 'audience', { namespace, clusterRole: 'cluster-admin', audiences: ['elsewhere'] }),
  );
  tokens.set('an expired token', expiredToken(tokens.get('cluster admin') ?? ''));
  tokens.set('no token', undefined);
  api = await startTestApi(client);
});

afterAll(async () => {
  await api?.close();
  for (const name of ['view', 'edit', 'admin'])
    await cluster.client.delete(clusterRoles, { name: `${namespace}-${name}` });
});

function pathOf(route: Route): string {
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'namespace') return namespace;
    return name.startsWith('remote') ? 'registry.example.com%2Fteam%2Fnothing' : 'nothing';
  });
}

const ofThePage = () => ({ origin: api.baseUrl, 'sec-fetch-site': 'same-origin' });
const cookies = new Map<Identity, string>();

async function cookieOf(who: Identity): Promise<string> {
  const known = cookies.get(who);
  if (known !== undefined) return known;
  const body = { token: tokens.get(who) };
  const { headers } = await api.call('POST', '/ui/session', { body, headers: ofThePage() });
  const cookie = String(headers['set-cookie']).split(';', 1)[0]!;
  cookies.set(who, cookie);
  return cookie;
}

const withoutWaiting = new Set(['deployVm', 'patchVm', 'deleteVm', 'execVm']);

describe('every route for every identity', () => {
  test('no route is forgotten', () => {
    expect(Object.keys(leastRole).sort()).toEqual(routes.map((route) => route.id).sort());
  });

  /** What a route may answer an identity, with each body that it could get. */
  async function calls(who: Identity, route: Route, credentials: CallOptions): Promise<void> {
    const least = leastRole[route.id]!;
    const path = `${pathOf(route)}${withoutWaiting.has(route.id) ? '?wait=false' : ''}`;
    const bodies = route.bodyKind === 'json' ? [route.example, { nonsense: true }, undefined] : [undefined];
    for (const body of bodies) {
      const { status, json } = await api.call(route.method, path, { ...credentials, body });
      const allowed = least === 'open' || (identities[who] as readonly string[]).includes(least);
      if (allowed) {
        expect([401, 403]).not.toContain(status);
        expect(status).toBeLessThan(500);
      } else {
        expect([status, json.kind, json.code]).toEqual(
          unauthenticated.has(who) ? [401, 'Status', 401] : [403, 'Status', 403],
        );
      }
    }
  }

  for (const who of Object.keys(identities) as Identity[]) {
    test.each(routes.map((route) => [route.id, route] as const))(`${who}: %s`, async (_, route) => {
      await calls(who, route, { token: tokens.get(who) });
    });
  }

  const signedIn = (Object.keys(identities) as Identity[]).filter((who) => !unauthenticated.has(who));
  for (const who of signedIn) {
    test.each(pageRoutes.map((route) => [route.id, route] as const))(
      `${who}, by the cookie of the page: %s`,
      async (_, route) => {
        await calls(who, route, { headers: { ...ofThePage(), cookie: await cookieOf(who) } });
      },
    );
  }

  test.each(pageRoutes.map((route) => [route.id, route] as const))(
    'is nothing of the page without its cookie: %s',
    async (_, route) => {
      const token = tokens.get('cluster admin');
      const { status } = await api.call(route.method, pathOf(route), { token, headers: ofThePage() });
      expect(status).toBe(401);
    },
  );

  test.each(
    routes.filter(({ permission }) => permission.kind !== 'open').map((route) => [route.id, route] as const),
  )('the cookie of the page is nothing to /api/v1: %s', async (_, route) => {
    const headers = { ...ofThePage(), cookie: await cookieOf('cluster admin') };
    expect((await api.call(route.method, pathOf(route), { headers })).status).toBe(401);
  });
});
