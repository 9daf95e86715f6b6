/** Requests that come from the schemas of the three API surfaces: bodies that fit, bodies that nearly do, and what is no JSON at all. */
import fc from 'fast-check';
import { aggregatedRoutes } from '../../../src/http/aggregated/routes.ts';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { routes } from '../../../src/http/routes/table.ts';
import { openApiOf } from '../../../src/http/server/openapi.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly minimum?: number;
  readonly maximum?: number;
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly { name: string; in: string; schema: Schema }[];
  readonly requestBody?: { content: Record<string, { schema: Schema }> };
}

interface ApiDocument {
  readonly paths: Record<string, Record<string, Operation>>;
  readonly components: { schemas: Record<string, Schema> };
}

export type Surface = 'v1' | 'legacy' | 'aggregated';

/** One route of one surface. */
export interface Target {
  readonly id: string;
  readonly surface: Surface;
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
  readonly schemas: Readonly<Record<string, Schema>>;
}

/** Who calls: by what they may do, or by what is wrong with them. */
export const callers = ['admin', 'editor', 'viewer', 'unbound', 'nobody', 'forger'] as const;
export type CallerName = (typeof callers)[number];

export interface FuzzRequest {
  readonly caller: CallerName;
  /** What a forger says. */
  readonly forged: string;
  /** Path and query. */
  readonly path: string;
  readonly body: string;
  readonly contentType: string;
}

/** What there is in the namespace of the test, of every kind. */
export const existing = 'fuzz';

export function targets(): Target[] {
  const notCalled = (): never => {
    throw new Error('not called');
  };
  const documents: Record<Surface, readonly Parameters<typeof openApiOf>[0][number][]> = {
    v1: routes,
    legacy: createGateway({ caller: notCalled }, rows, 'x').routes,
    aggregated: aggregatedRoutes,
  };
  return (Object.keys(documents) as Surface[]).flatMap((surface) => {
    const { paths, components } = openApiOf(documents[surface]) as unknown as ApiDocument;
    return Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        id: operation.operationId,
        surface,
        method: method.toUpperCase(),
        path,
        operation,
        schemas: components.schemas,
      })),
    );
  });
}

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

/** How much of a body is as its schema says. */
type Care = 'careful' | 'careless';

class Values {
  readonly #schemas: Target['schemas'];

  constructor(schemas: Target['schemas']) {
    this.#schemas = schemas;
  }

  /** Values that fit the schema; where nobody takes care, now and then ones that do not. */
  of(given: Schema, care: Care, name = '', depth = 0): fc.Arbitrary<unknown> {
    const schema =
      given.$ref === undefined ? given : (this.#schemas[given.$ref.split('/').at(-1) ?? ''] ?? given);
    const fitting = this.#fitting(schema, care, name, depth);
    if (care === 'careful') return fitting;
    return fc.oneof(
      { arbitrary: fitting, weight: 6 },
      { arbitrary: nasty, weight: 2 },
      { arbitrary: fc.jsonValue({ maxDepth: 2 }), weight: 1 },
    );
  }

  #fitting(schema: Schema, care: Care, name: string, depth: number): fc.Arbitrary<unknown> {
    if (schema.const !== undefined) return fc.constant(schema.const);
    if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
    if (schema.anyOf !== undefined)
      return fc.oneof(...schema.anyOf.map((member) => this.of(member, care, name, depth)));
    switch (schema.type) {
      case 'boolean':
        return fc.boolean();
      case 'integer': {
        const min = Math.max(schema.minimum ?? -5, -1000);
        return fc.integer({ min, max: Math.max(min, Math.min(schema.maximum ?? 1000, 100_000)) });
      }
      case 'number':
        return fc.double({ min: 0, max: 64, noNaN: true });
      case 'array':
        return depth > 3
          ? fc.constant([])
          : fc.array(this.of(schema.items ?? {}, care, name, depth + 1), { maxLength: 3 });
      case 'object':
        return this.#object(schema, care, depth);
      default:
        return textNamed(name);
    }
  }

  /** With care: what has to be there, and little else, so that one wrong text does not hide all others. */
  #object({ properties = {}, required = [] }: Schema, care: Care, depth: number): fc.Arbitrary<unknown> {
    const of = (names: readonly string[]) =>
      Object.fromEntries(names.map((name) => [name, this.of(properties[name] ?? {}, care, name, depth + 1)]));
    const names = Object.keys(properties);
    if (care === 'careless') return fc.record(of(names), { requiredKeys: [] });
    const optional = names.filter((name) => !required.includes(name));
    return fc
      .subarray(optional, { maxLength: Math.min(2, optional.length) })
      .chain((chosen) => fc.record(of([...required, ...chosen])));
  }
}

const words = fc.oneof(
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

/** A text for a field: names are mostly of what there is. */
function textNamed(field: string): fc.Arbitrary<string> {
  if (!/name|config|image|iso$/i.test(field)) return words;
  return fc.oneof(
    { arbitrary: fc.constantFrom(existing, existing, 'a'), weight: 3 },
    { arbitrary: words, weight: 1 },
  );
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

const namesInPaths: fc.Arbitrary<string> = fc.oneof(
  { arbitrary: fc.constant(existing), weight: 3 },
  {
    arbitrary: fc.constantFrom(
      'a',
      'registry.example.com/a/b',
      '..',
      '.',
      '%',
      'a/../b',
      '\u0000',
      'x'.repeat(200),
    ),
    weight: 2,
  },
  { arbitrary: fc.string({ minLength: 1, maxLength: 12 }), weight: 2 },
);

function parameterOf(name: string, namespace: string): fc.Arbitrary<string> {
  if (name !== 'namespace') return namesInPaths;
  return fc.oneof(
    { arbitrary: fc.constant(namespace), weight: 8 },
    { arbitrary: fc.string({ maxLength: 12 }), weight: 1 },
    { arbitrary: fc.constantFrom('..', 'a/b', 'A', 'a'.repeat(80)), weight: 1 },
  );
}

/** What waits for an operator by default, which is asked for as in tests of the operator and not here. */
const waiting: ReadonlySet<string> = new Set([
  'deployVm',
  'deleteVm',
  'execVm',
  'patchVm',
  'aggregated execVm',
]);

function pathOf(target: Target, namespace: string): fc.Arbitrary<string> {
  const { parameters } = target.operation;
  const inPath = parameters.filter((each) => each.in === 'path').map(({ name }) => name);
  const inQuery = parameters.filter((each) => each.in === 'query').map(({ name }) => name);
  const key = fc.constantFrom(...inQuery, 'expand', 'wait', '__proto__');
  const value = fc.oneof(fc.constant('false'), fc.string({ maxLength: 8 }));
  return fc
    .tuple(
      fc.tuple(...inPath.map((name) => parameterOf(name, namespace))),
      fc.array(fc.tuple(key, value), { maxLength: 2 }),
    )
    .map(([given, query]) => {
      const path = target.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
        encodeURIComponent(given[inPath.indexOf(name)] ?? 'x'),
      );
      const search = new URLSearchParams(query);
      if (waiting.has(target.id)) search.set('wait', 'false');
      return search.size === 0 ? path : `${path}?${search.toString()}`;
    });
}

function bodyOf({ operation, schemas }: Target): fc.Arbitrary<string> {
  const schema = operation.requestBody?.content['application/json']?.schema;
  if (schema === undefined)
    return fc.oneof({ arbitrary: fc.constant(''), weight: 8 }, { arbitrary: texts, weight: 2 });
  const values = new Values(schemas);
  const json = (care: Care) => values.of(schema, care).map((value) => JSON.stringify(value) ?? '');
  return fc.oneof(
    { arbitrary: json('careful'), weight: 5 },
    { arbitrary: json('careless'), weight: 4 },
    { arbitrary: texts, weight: 2 },
    { arbitrary: json('careless').map((text) => text.slice(0, Math.floor(text.length / 2))), weight: 1 },
  );
}

const weights: Readonly<Record<CallerName, number>> = {
  admin: 8,
  editor: 4,
  viewer: 1,
  unbound: 1,
  nobody: 1,
  forger: 1,
};

/** Requests to a route, mostly about what there is in the namespace. */
export function requestsTo(target: Target, namespace: string): fc.Arbitrary<FuzzRequest> {
  return fc.record({
    caller: fc.oneof(...callers.map((name) => ({ arbitrary: fc.constant(name), weight: weights[name] }))),
    forged: fc.constantFrom(
      'Basic eDp5',
      'Bearer',
      'Bearer \u00e4',
      `Bearer ${'x'.repeat(9000)}`,
      'Bearer a.b.c',
    ),
    path: pathOf(target, namespace),
    body: bodyOf(target),
    contentType: fc.oneof(
      { arbitrary: fc.constant('application/json'), weight: 8 },
      { arbitrary: contentTypes, weight: 2 },
    ),
  });
}
