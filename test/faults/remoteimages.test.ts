import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createRemoteCatalog } from '../../src/http/remotes/remotes.ts';
import { objectNames } from '../../src/api/meta.ts';
import { secrets } from '../../src/api/resources.ts';
import { createNamespaceRegistries } from '../../src/controllers/image/registries.ts';
import { startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../support/cluster.ts';
import { startHostileRegistry, type HostileRegistry } from '../support/hostileregistry.ts';

const repositories = 300;
const timeoutMs = 1_500;

let cluster: TestCluster;
let good: HostileRegistry;
let silent: HostileRegistry;
const apis: TestApi[] = [];

/** A registry with many repositories of two tags each; counts how many calls it has at the same time. */
const calls = { now: 0, most: 0 };
function serveCatalog(registry: HostileRegistry): void {
  const names = Array.from({ length: repositories }, (_, index) => `team/r${index}`);
  registry.answers.set('/v2/_catalog', (_request, response) => {
    response.end(JSON.stringify({ repositories: [...names, '../../v2/_catalog', 'team/../../_catalog', 7] }));
  });
  for (const name of names)
    registry.answers.set(`/v2/${name}/tags/list`, async (_request, response) => {
      calls.now += 1;
      calls.most = Math.max(calls.most, calls.now);
      await delay(1);
      calls.now -= 1;
      response.end(JSON.stringify({ tags: ['1', '2'] }));
    });
}

beforeAll(async () => {
  cluster = await testCluster();
  [good, silent] = [await startHostileRegistry(), await startHostileRegistry()];
  silent.answers.set('/v2/_catalog', () => undefined);
});

beforeEach(() => {
  good.answers.clear();
  good.requests.length = 0;
  silent.requests.length = 0;
  calls.most = 0;
  serveCatalog(good);
});

afterAll(async () => {
  for (const api of apis) await api.close();
  good?.close();
  silent?.close();
});

/** An api that lists these registries; the registries are plain, as the image store may be. */
async function apiOf(registries: readonly HostileRegistry[], times = {}): Promise<TestApi> {
  const plain = (host: string) =>
    createNamespaceRegistries(cluster.client, { url: `http://${host}`, prefix: 'store' });
  const api = await startTestApi(cluster.client, {
    remotes: createRemoteCatalog(
      registries.map(({ address }) => address),
      (host, namespace) => plain(host).look(namespace, host),
      { timeoutMs, ...times },
    ),
  });
  apis.push(api);
  return api;
}

const list = (api: TestApi, namespace: string): Promise<Answer> =>
  api.call('GET', `/api/v1/namespaces/${namespace}/remoteimages`, { token: cluster.adminToken });

const whole = (registry: HostileRegistry) =>
  Array.from({ length: repositories }, (_, index) =>
    ['1', '2'].map((tag) => ({ name: `${registry.address}/team/r${index}:${tag}`, tags: ['1', '2'] })),
  ).flat();

describe('remote images', () => {
  test('are asked for once, however many ask, and few calls at a time', async () => {
    const api = await apiOf([good], { timeoutMs: 60_000 });
    const places = await Promise.all(
      Array.from({ length: 3 }, () => uniqueNamespace(cluster.client, 'remote')),
    );
    const answers = await Promise.all([...places, ...places].map((namespace) => list(api, namespace)));
    for (const { status, json } of [...answers, await list(api, places[0] ?? '')]) {
      expect(status).toBe(200);
      expect(json).toEqual({ items: whole(good) });
    }
    expect(good.requests).toHaveLength(repositories + 1);
    expect(calls.most).toBeLessThanOrEqual(4);
  });

  test('are asked for anew with another credential, and shown to nobody else', async () => {
    const api = await apiOf([good], { timeoutMs: 60_000 });
    const [mine, others] = [
      await uniqueNamespace(cluster.client, 'remote'),
      await uniqueNamespace(cluster.client, 'remote'),
    ];
    await list(api, others);
    expect(good.requests).toHaveLength(repositories + 1);
    const config = { auths: { [good.address]: { username: 'alice', password: 'canary' } } };
    await cluster.client.create(secrets, {
      metadata: { name: objectNames.pullSecret, namespace: mine },
      type: 'kubernetes.io/dockerconfigjson',
      data: { '.dockerconfigjson': Buffer.from(JSON.stringify(config)).toString('base64') },
    });
    good.answers.set('/v2/_catalog', (_request, response) => response.end('{"repositories":["team/r7"]}'));
    expect((await list(api, mine)).json.items).toHaveLength(2);
    expect((await list(api, others)).json.items).toHaveLength(2 * repositories);
    expect(good.requests).toHaveLength(repositories + 1 + 2);
  });

  test('of one registry are shown although another is silent, and that is said', async () => {
    const api = await apiOf([silent, good]);
    const namespace = await uniqueNamespace(cluster.client, 'remote');
    const waiting = `remote registry ${silent.address} is still being listed; ask again for more`;
    // The one that answers may need longer than the time-out on a busy machine: what has come of it by then is shown, the rest later.
    await expect
      .poll(async () => (await list(api, namespace)).json)
      .toEqual({ items: whole(good), incomplete: [waiting] });
    expect((await list(api, namespace)).headers['warning']).toContain('still being listed');
    expect(silent.requests).toEqual(['GET /v2/_catalog?n=1000']);
  });

  test('of a registry that is away are an error, which holds for a moment', async () => {
    good.answers.set('/v2/_catalog', (_request, response) => {
      response.writeHead(403).end(JSON.stringify({ errors: [{ code: 'DENIED', message: 'not you' }] }));
    });
    const api = await apiOf([good], { timeoutMs: 60_000 });
    const namespace = await uniqueNamespace(cluster.client, 'remote');
    for (let round = 0; round < 3; round += 1)
      expect((await list(api, namespace)).json).toMatchObject({
        code: 502,
        message: `remote registry ${good.address} could not be listed: registry ${good.address} denied access (DENIED: not you)`,
      });
    expect(good.requests).toHaveLength(1);
  });

  test('that are too many are cut off, and that is said', async () => {
    const names = Array.from({ length: 1_200 }, (_, index) => `r${index}`);
    const tags = Array.from({ length: 60 }, (_, index) => `t${index}`);
    good.answers.set('/v2/_catalog', (_request, response) =>
      response.end(JSON.stringify({ repositories: names })),
    );
    for (const name of names)
      good.answers.set(`/v2/${name}/tags/list`, (_request, response) =>
        response.end(JSON.stringify({ tags })),
      );
    const api = await apiOf([good], { timeoutMs: 60_000 });
    const { json } = await list(api, await uniqueNamespace(cluster.client, 'remote'));
    expect(json.items.length).toBeGreaterThanOrEqual(2_000);
    expect(json.items.length).toBeLessThan(2_000 + 4 * 50);
    expect(json.incomplete).toEqual([
      `remote registry ${good.address} holds more than is listed; name a path of it in remoteRegistries`,
    ]);
    expect(good.requests.length).toBeLessThan(50);
  });

  test('of repositories that are not shown are left out, and that is said', async () => {
    good.answers.set('/v2/team/r3/tags/list', (_request, response) => response.writeHead(403).end('{}'));
    const api = await apiOf([good], { timeoutMs: 60_000 });
    const { json } = await list(api, await uniqueNamespace(cluster.client, 'remote'));
    expect(json.items).toHaveLength(2 * (repositories - 1));
    expect(json.incomplete).toEqual([`remote registry ${good.address} does not show 1 of its repositories`]);
  });
});
