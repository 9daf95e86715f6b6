import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ownResources } from '../../../src/api/resources.ts';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { openApiOf } from '../../../src/http/server/openapi.ts';
import { routes } from '../../../src/http/routes/table.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';

/** Requests in all, spread over the routes of both API surfaces. */
const requested = 10_000;
/** The same requests in every run; another number gives others. */
const seed = Number(process.env['SVC3_FUZZ_SEED'] ?? 1);

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}
interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { name: string; in: string; schema: Schema }[];
  readonly requestBody?: { content: Record<string, { schema: Schema }> };
}
interface Target {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly isLegacy: boolean;
}

let cluster: TestCluster;
let api: TestApi;
let namespace: string;

beforeAll(async () => {
  cluster = await testCluster();
  namespace = await uniqueNamespace(cluster.client, 'fuzz');
  api = await startTestApi(cluster.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
});

afterAll(async () => {
  await api?.close();
});

const nasty = fc.constantFrom<unknown>(
  '',
  '../../../etc/passwd',
  'a/b',
  'A'.repeat(300),
  '\u0000',
  'ünï',
  '${jndi:ldap://x}',
  "'; DROP TABLE vms; --",
  '%2e%2e%2f',
  -1,
  0,
  1.5,
  2 ** 53,
  1e300,
  true,
  null,
  [],
  {},
  { $ref: '#' },
  ['x', 1, null],
);

/** Schemas of the documents that others refer to. */
const named: Record<string, Schema> = {};

/** Values that fit the schema, and now and then ones that do not. */
function valueOf(given: Schema, depth = 0): fc.Arbitrary<unknown> {
  const schema = given.$ref === undefined ? given : (named[given.$ref.split('/').at(-1) ?? ''] ?? given);
  return fc.oneof(
    { arbitrary: fitting(schema, depth), weight: 6 },
    { arbitrary: nasty, weight: 2 },
    { arbitrary: fc.jsonValue({ maxDepth: 2 }), weight: 1 },
  );
}

function fitting(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((member) => fitting(member, depth)));
  switch (schema.type) {
    case 'boolean':
      return fc.boolean();
    case 'integer':
      return fc.integer({
        min: Math.max(schema.minimum ?? -5, -1000),
        max: Math.min(schema.maximum ?? 1000, 100_000),
      });
    case 'number':
      return fc.double({ min: 0, max: 64, noNaN: true });
    case 'array':
      return depth > 3 ? fc.constant([]) : fc.array(valueOf(schema.items ?? {}, depth + 1), { maxLength: 3 });
    case 'object':
      return objectOf(schema, depth);
    default:
      return fc.oneof(
        fc.constantFrom(
          'a',
          'fuzz',
          'registry.example.com/a/b:1',
          '10G',
          '20080:80',
          'https://r.example.com',
          '720h',
        ),
        fc.string({ maxLength: 20 }),
      );
  }
}

function objectOf(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  const members = Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, member]) => [name, valueOf(member, depth + 1)]),
  );
  return fc.record(members, { requiredKeys: [] });
}

const texts: fc.Arbitrary<string> = fc.constantFrom(
  '{"a":1,"a":2}',
  '{"__proto__":{"admin":true}}',
  '{"constructor":{"prototype":{"x":1}}}',
  '{"name":"\\ud800"}',
  '{"name":"\\u0000"}',
  '{"cpu":1e999}',
  `${'['.repeat(5000)}${']'.repeat(5000)}`,
  '{"name":',
  'null',
  '[]',
  '"text"',
  '\ufeff{}',
  '{}{}',
);

const contentTypes = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-8',
  '',
  'text/plain',
  'application/xml',
  'multipart/form-data',
  'multipart/form-data; boundary=x',
  'nonsense',
  'application/x-www-form-urlencoded',
);

function requestOf(target: Target) {
  const { operation } = target;
  const parameter = (name: string): fc.Arbitrary<string> => {
    if (name === 'namespace')
      return fc.oneof(
        { arbitrary: fc.constant(namespace), weight: 8 },
        { arbitrary: fc.string({ maxLength: 12 }), weight: 1 },
        { arbitrary: fc.constantFrom('..', 'a/b', 'A', 'a'.repeat(80)), weight: 1 },
      );
    return fc.oneof(
      fc.constantFrom(
        'fuzz',
        'a',
        'registry.example.com/a/b',
        '..',
        '.',
        '%',
        'a/../b',
        '\u0000',
        'x'.repeat(200),
      ),
      fc.string({ minLength: 1, maxLength: 12 }),
    );
  };
  const names = operation.parameters.filter((each) => each.in === 'path').map((each) => each.name);
  const query = operation.parameters.filter((each) => each.in === 'query').map((each) => each.name);
  const schema = operation.requestBody?.content['application/json']?.schema;
  const json = (schema === undefined ? fc.constant(undefined) : valueOf(schema)).map((value) =>
    value === undefined ? '' : JSON.stringify(value),
  );
  return fc.record({
    params: fc.tuple(...names.map(parameter)),
    query: fc.array(
      fc.tuple(
        fc.constantFrom(...query, 'expand', 'wait', '__proto__'),
        fc.oneof(fc.constant('false'), fc.string({ maxLength: 8 })),
      ),
      { maxLength: 2 },
    ),
    body: fc.oneof(
      { arbitrary: json, weight: 8 },
      { arbitrary: texts, weight: 2 },
      { arbitrary: json.map((text) => text.slice(0, Math.floor(text.length / 2))), weight: 1 },
    ),
    contentType: fc.oneof(
      { arbitrary: fc.constant('application/json'), weight: 8 },
      { arbitrary: contentTypes, weight: 2 },
    ),
    token: fc.oneof(
      { arbitrary: fc.constant('good'), weight: 12 },
      {
        arbitrary: fc.constantFrom('', 'Basic eDp5', 'Bearer', 'Bearer \u00e4', `Bearer ${'x'.repeat(9000)}`),
        weight: 1,
      },
    ),
  });
}

function targets(): Target[] {
  const own = openApiOf(routes) as {
    paths: Record<string, Record<string, Operation>>;
    components: { schemas: Record<string, Schema> };
  };
  const surface = createGateway(
    {
      caller: () => {
        throw new Error('not called');
      },
    },
    rows,
    'x',
  );
  const legacy = openApiOf(surface.routes) as typeof own;
  Object.assign(named, own.components.schemas, legacy.components.schemas);
  const all = (document: typeof own, isLegacy: boolean) =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        id: operation.operationId,
        method: method.toUpperCase(),
        path,
        operation,
        isLegacy,
      })),
    );
  // What waits for an operator that is not there would only wait.
  const waits = new Set(['legacy POST /resources/vm/deploy']);
  return [...all(own, false), ...all(legacy, true)].filter(({ id }) => !waits.has(id));
}

/** How texts of the 2.4.x envelope begin that are about a field. */
const fieldFirst = /^[^\s:]+: \S/;

type Sent = ReturnType<typeof requestOf> extends fc.Arbitrary<infer T> ? T : never;

async function send(target: Target, { params, query, body, contentType, token }: Sent) {
  const names = target.operation.parameters.filter((each) => each.in === 'path').map((each) => each.name);
  let path = target.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(params[names.indexOf(name)] ?? 'x'),
  );
  const search = new URLSearchParams(query);
  if (['deployVm', 'deleteVm', 'execVm'].includes(target.id)) search.set('wait', 'false');
  path += search.size === 0 ? '' : `?${search.toString()}`;
  const withBody = target.method !== 'GET';
  return await api.api.http.app.inject({
    method: target.method as 'GET',
    url: path,
    headers: {
      authorization:
        token === 'good' ? `Bearer ${cluster.adminToken}` : Buffer.from(token, 'latin1').toString('latin1'),
      'x-svc3-namespace': namespace,
      ...(withBody && contentType !== '' ? { 'content-type': contentType } : {}),
    },
    ...(withBody ? { payload: body } : {}),
  });
}

/** The one answer of 500 that clients of 2.4.x are owed: it means that there is nothing to do. */
function isNothingToDelete(
  { id }: Target,
  { statusCode, body }: { statusCode: number; body: string },
): boolean {
  const isRow = id === 'legacy DELETE /resources/vm/delete' && statusCode === 500;
  return isRow && body.includes('"No VMs with that name are currently deployed"');
}

test(
  `${requested} requests made from the schemas: no answer of 5xx, every refusal names what is wrong, nothing half written`,
  { timeout: 600_000 },
  async () => {
    const all = targets();
    const perTarget = Math.ceil(requested / all.length);
    const counts = new Map<number, number>();
    let next = 0;
    let sent = 0;
    const work = async (): Promise<void> => {
      for (let index = next++; index < all.length; index = next++) {
        const target = all[index]!;
        await fc.assert(
          fc.asyncProperty(requestOf(target), async (request) => {
            const answer = await send(target, request);
            sent += 1;
            counts.set(answer.statusCode, (counts.get(answer.statusCode) ?? 0) + 1);
            if (isNothingToDelete(target, answer)) return;
            if (answer.statusCode >= 500)
              throw new Error(
                `${target.id}: ${answer.statusCode} ${answer.body.slice(0, 500)}\n${api.log.lines.slice(-2).join('\n')}`,
              );
            if (answer.statusCode < 400) return;
            const body = JSON.parse(answer.body) as {
              details?: { causes?: { field: string }[] };
              errors?: { message: string }[];
            };
            const isOfInput = [400, 413, 414, 415, 422].includes(answer.statusCode);
            const told = target.isLegacy ? body.errors?.[0]?.message : body.details?.causes?.[0]?.field;
            if (isOfInput || target.isLegacy)
              expect(told, `${target.id} ${answer.statusCode} ${answer.body}`).toMatch(
                target.isLegacy && isOfInput ? fieldFirst : /./,
              );
          }),
          { numRuns: perTarget, endOnFailure: true, seed: seed + index },
        );
      }
    };
    await Promise.all(Array.from({ length: 6 }, work));
    expect(sent).toBeGreaterThanOrEqual(requested);
    expect([...counts.keys()].sort((a, b) => a - b)).toEqual(expect.arrayContaining([200, 401, 404, 422]));
    await everythingIsWhole();
  },
);

/** Whatever was written is an object that the kinds' own schemas take, and belongs to the namespace of the test. */
async function everythingIsWhole(): Promise<void> {
  for (const resource of ownResources) {
    const { items } = await cluster.client.list(resource, { namespace });
    for (const object of items) {
      if (object.metadata?.deletionTimestamp !== undefined) continue;
      await cluster.client.request({
        method: 'PUT',
        path: `/apis/svc3.dev/v1/namespaces/${namespace}/${resource.plural}/${object.metadata?.name}`,
        query: { dryRun: 'All', fieldValidation: 'Strict' },
        body: object,
      });
    }
  }
}
