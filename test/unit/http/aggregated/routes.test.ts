import { describe, expect, test, vi } from 'vitest';
import { root } from '../../../../src/http/aggregated/discovery.ts';
import { aggregatedRoutes } from '../../../../src/http/aggregated/routes.ts';
import type { Call, Route } from '../../../../src/http/call/route.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { condition } from '../../controllers/image/builders.ts';
import { aVm } from '../../controllers/vm/builders.ts';

function routeOf(method: string, path: string): Route {
  const found = aggregatedRoutes.find((route) => route.method === method && route.path === path);
  if (found === undefined) throw new Error(`there is no ${method} ${path}`);
  return found;
}

const called = async (route: Route, call: Partial<Call<unknown, unknown, unknown>>) =>
  route.handler({ query: {}, params: {}, ...call } as unknown as Call<unknown, unknown, unknown>);

test.each(['/apis', '/openapi/v2', `/openapi/v3${root}`])(
  '%s is made once, however often anybody asks for it',
  async (path) => {
    const { json } = await called(routeOf('GET', path), {});
    expect(JSON.parse(String(json))).toEqual(expect.any(Object));
    expect((await called(routeOf('GET', path), {})).json).toBe(json);
  },
);

describe('a list', () => {
  const nodes = ['n1', 'n2'].map((name) => ({ metadata: storedMeta({ name }) }));
  const services = { caches: { nodes: { list: () => nodes }, usages: { of: () => ({}) } } } as never;
  const remotes = {
    remotes: { list: async () => ({ items: [{ name: 'r/a' }, { name: 'r/b' }], incomplete: [] }) },
  };
  const namesIn = ({ body }: { body?: unknown }) =>
    (body as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name);

  test.each([
    [{}, ['n1', 'n2']],
    [{ fieldSelector: 'metadata.name=n1' }, ['n1']],
    [{ labelSelector: 'a=b' }, []],
  ])('of nodes by %j has %j', async (query, names) => {
    expect(namesIn(await called(routeOf('GET', `${root}/nodes`), { query, services }))).toEqual(names);
  });

  test.each([
    [{}, ['r/a', 'r/b']],
    [{ fieldSelector: 'metadata.name!=r/a,metadata.namespace=team' }, ['r/b']],
    [{ labelSelector: 'a' }, []],
  ])('of what registries hold by %j has %j', async (query, names) => {
    const route = routeOf('GET', `${root}/namespaces/{namespace}/remoteimages`);
    const params = { namespace: 'team' };
    expect(namesIn(await called(route, { query, params, services: remotes as never }))).toEqual(names);
  });
});

describe('whether a verb waits', () => {
  const exec = routeOf('POST', `${root}/namespaces/{namespace}/vms/{vm}/exec`);
  const vm = aVm({ status: { powerState: 'Running', conditions: [condition('Booted', 'True', 'Booted')] } });

  test.each([
    [{}, 1],
    [{ wait: 'true' }, 1],
    [{ wait: '' }, 1],
    [{ wait: 'false' }, 0],
    [{ wait: '0', fieldManager: 'kubectl-create' }, 0],
  ])('is read of %j as in /api/v1', async (query, waits) => {
    const until = vi.fn(() => Promise.reject(new Error('drained')));
    const services = {
      client: { patch: async () => vm, get: async () => vm },
      caches: { vms: { objects: { get: () => vm }, changes: { until } } },
    } as never;
    const { signal } = new AbortController();
    const reply = await called(exec, {
      services,
      signal,
      drain: signal,
      params: { namespace: 'team', vm: 'web' },
      query: exec.query.parse(query),
      body: { command: 'stop' },
    });
    expect([reply.status, until.mock.calls.length]).toEqual([202, waits]);
  });

  test('is refused where it is no word for it', () => {
    expect(exec.query.safeParse({ wait: 'nonsense' }).success).toBe(false);
  });
});

const writes = aggregatedRoutes.filter(({ method }) => method !== 'GET');

test('there are writes', () => {
  expect(writes.length).toBeGreaterThan(8);
});

test.each(writes.map((route) => [`${route.method} ${route.path}`, route] as const))(
  '%s carries out no dry run',
  async (_path, route) => {
    await expect(called(route, { query: { dryRun: 'All' } })).rejects.toMatchObject({
      reason: 'BadRequest',
      details: { causes: [{ field: 'dryRun' }] },
    });
  },
);
