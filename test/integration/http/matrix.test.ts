import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Route } from '../../../src/http/call/route.ts';
import { routes } from '../../../src/http/routes/table.ts';
import { pageRoutes } from '../../../src/http/ui/routes.ts';
import { startTestApi, type CallOptions, type TestApi } from '../../support/api.ts';
import {
  chartPeople,
  type ChartPeople,
  everybody,
  has,
  type Level,
  oneOfEach,
  type Person,
  unauthenticated,
} from '../../support/chartroles.ts';
import { testCluster, uniqueNamespace } from '../../support/cluster.ts';

/** What a role has to give for each route. A route without a row fails the first test. */
const needed: Readonly<Record<string, Level | 'open'>> = {
  listVms: 'view',
  getVm: 'view',
  deployVm: 'edit',
  patchVm: 'edit',
  deleteVm: 'edit',
  execVm: 'edit',
  saveVm: 'edit',
  commitVm: 'edit',
  ejectVm: 'edit',
  explainVm: 'view',
  getVmUsage: 'view',
  openConsole: 'edit',
  streamConsole: 'edit',
  streamSerial: 'edit',
  streamTunnel: 'edit',
  listAllVms: 'administer',
  listVmConfigs: 'view',
  getVmConfig: 'view',
  createVmConfig: 'edit',
  deleteVmConfig: 'edit',
  listAllVmConfigs: 'administer',
  listVmPools: 'view',
  getVmPool: 'view',
  createVmPool: 'edit',
  patchVmPool: 'edit',
  scaleVmPool: 'edit',
  deleteVmPool: 'edit',
  listNodes: 'view',
  getNode: 'view',
  tagNode: 'administer',
  untagNode: 'administer',
  assignNode: 'all',
  allowGpuPassthrough: 'all',
  listImages: 'view',
  getImage: 'view',
  generateImage: 'edit',
  deleteImage: 'edit',
  copyImage: 'edit',
  describeImage: 'edit',
  downloadImage: 'edit',
  uploadImage: 'edit',
  getImageUpload: 'edit',
  appendImageUpload: 'edit',
  cancelImageUpload: 'edit',
  listAllImages: 'administer',
  listIsos: 'view',
  getIso: 'view',
  deleteIso: 'edit',
  copyIso: 'edit',
  describeIso: 'edit',
  downloadIso: 'edit',
  uploadIso: 'edit',
  getIsoUpload: 'edit',
  appendIsoUpload: 'edit',
  cancelIsoUpload: 'edit',
  listRemoteImages: 'view',
  pullImage: 'edit',
  listRemoteIsos: 'view',
  pullIso: 'edit',
  listRegistryCredentials: 'administer',
  addRegistryCredential: 'administer',
  removeRegistryCredential: 'administer',
  listServiceAccounts: 'seeAccounts',
  createServiceAccount: 'makeAccounts',
  deleteServiceAccount: 'makeAccounts',
  createServiceAccountToken: 'makeAccounts',
  getClusterInfo: 'open',
  getOidcClient: 'open',
  uploadCertificate: 'administer',
};

let people: ChartPeople;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  const { client, kubeconfigPath } = await testCluster();
  namespace = await uniqueNamespace(client, 'matrix');
  const elsewhere = await uniqueNamespace(client, 'matrix-other');
  people = await chartPeople({ client, kubeconfigPath, namespace, elsewhere });
  api = await startTestApi(client);
});

afterAll(async () => {
  await api?.close();
  await people?.remove();
});

function pathOf(route: Route): string {
  return route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'namespace') return namespace;
    return name.startsWith('remote') ? 'registry.example.com%2Fteam%2Fnothing' : 'nothing';
  });
}

const ofThePage = () => ({ origin: api.baseUrl, 'sec-fetch-site': 'same-origin' });
const cookies = new Map<Person, string>();

async function cookieOf(who: Person): Promise<string> {
  const known = cookies.get(who);
  if (known !== undefined) return known;
  const body = { token: people.tokens.get(who) };
  const { headers } = await api.call('POST', '/ui/session', { body, headers: ofThePage() });
  const cookie = String(headers['set-cookie']).split(';', 1)[0]!;
  cookies.set(who, cookie);
  return cookie;
}

const withoutWaiting = new Set(['deployVm', 'patchVm', 'deleteVm', 'execVm']);

describe('every route for every identity', () => {
  test('no route is forgotten', () => {
    expect(Object.keys(needed).sort()).toEqual(routes.map((route) => route.id).sort());
  });

  /** What a route may answer an identity, with each body that it could get. */
  async function calls(who: Person, route: Route, credentials: CallOptions): Promise<void> {
    const least = needed[route.id]!;
    const path = `${pathOf(route)}${withoutWaiting.has(route.id) ? '?wait=false' : ''}`;
    const bodies = route.bodyKind === 'json' ? [route.example, { nonsense: true }, undefined] : [undefined];
    for (const body of bodies) {
      const { status, json } = await api.call(route.method, path, { ...credentials, body });
      const allowed = least === 'open' || has(who, least);
      if (allowed) {
        expect([401, 403]).not.toContain(status);
        expect(status).toBeLessThan(500);
      } else
        expect([status, json.kind, json.code]).toEqual(
          unauthenticated.has(who) ? [401, 'Status', 401] : [403, 'Status', 403],
        );
    }
  }

  for (const who of everybody)
    test.each(routes.map((route) => [route.id, route] as const))(`${who}: %s`, async (_, route) => {
      await calls(who, route, { token: people.tokens.get(who) });
    });

  for (const who of oneOfEach)
    test.each(pageRoutes.map((route) => [route.id, route] as const))(
      `${who}, by the cookie of the page: %s`,
      async (_, route) => {
        await calls(who, route, { headers: { ...ofThePage(), cookie: await cookieOf(who) } });
      },
    );

  test.each(pageRoutes.map((route) => [route.id, route] as const))(
    'is nothing of the page without its cookie: %s',
    async (_, route) => {
      const token = people.tokens.get('cluster-admin');
      const { status } = await api.call(route.method, pathOf(route), { token, headers: ofThePage() });
      expect(status).toBe(401);
    },
  );

  test.each(
    routes.filter(({ permission }) => permission.kind !== 'open').map((route) => [route.id, route] as const),
  )('the cookie of the page is nothing to /api/v1: %s', async (_, route) => {
    const headers = { ...ofThePage(), cookie: await cookieOf('cluster-admin') };
    expect((await api.call(route.method, pathOf(route), { headers })).status).toBe(401);
  });
});
