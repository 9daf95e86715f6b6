import { describe, expect, test } from 'vitest';
import { routes } from '../../../../../src/http/routes/table.ts';
import { openApiOf } from '../../../../../src/http/server/openapi.ts';
import {
  bodyOf,
  fieldsOf,
  otherProblems,
  problemOf,
  titleOf,
  type Field,
  type Schemas,
} from '../../../../../src/http/ui/page/schema.ts';

test.each([
  ['gpuPassthrough', 'GPU passthrough'],
  ['vmConfigNamespace', 'VM config namespace'],
  ['displayDPI', 'Display DPI'],
  ['legacyIO', 'Legacy IO'],
  ['customVMMetadata', 'Custom VM metadata'],
  ['name', 'Name'],
])('%s is titled %s', (name, title) => {
  expect(titleOf(name)).toBe(title);
});

const schemas: Schemas = {
  Disk: {
    type: 'object',
    properties: {
      size: { type: 'string', description: 'How large.' },
      storage: { enum: ['A', 'B'], type: 'string' },
    },
  },
};
const form = fieldsOf(
  {
    type: 'object',
    required: ['name'],
    properties: {
      name: { anyOf: [{ type: 'string' }, { type: 'string', const: '' }], description: 'A name.' },
      cpu: { type: 'integer' },
      gpu: { type: 'boolean' },
      scheduler: { type: 'string', enum: ['default', 'other', ''] },
      keys: { type: 'array', items: { type: 'string' } },
      disk: { $ref: '#/components/schemas/Disk' },
      agent: { type: 'object', properties: {} },
      affinity: { type: 'object', additionalProperties: true } as object,
    },
  },
  schemas,
);

describe('the fields of a schema', () => {
  test('are inputs for what the schema says', () => {
    const kinds = (fields: readonly Field[]): unknown[] =>
      fields.map(({ path, kind, fields }) => (kind === 'group' ? [path, kinds(fields)] : `${path} ${kind}`));
    expect(kinds(form)).toEqual([
      'name text',
      'cpu number',
      'gpu flag',
      'scheduler choice',
      'keys lines',
      ['disk', ['disk.size text', 'disk.storage choice']],
      'agent presence',
      'affinity json',
    ]);
    expect([form[0]?.isRequired, form[0]?.help, form[3]?.choices]).toEqual([
      true,
      'A name.',
      ['default', 'other'],
    ]);
  });

  test('of a deploy are those of the server', () => {
    const { components } = openApiOf(routes) as { components: { schemas: Schemas } };
    const fields = fieldsOf(components.schemas['DeployRequest'] ?? {}, components.schemas);
    const kindOf = (path: string) => fields.find((field) => field.path === path)?.kind;
    expect(
      ['name', 'cpu', 'memory', 'gpuPassthrough', 'scheduler', 'sshAuthorizedKeys', 'disk'].map(kindOf),
    ).toEqual(['text', 'number', 'number', 'flag', 'choice', 'lines', 'group']);
  });
});

describe('the body of a form', () => {
  const body = (values: Record<string, string>) => bodyOf(form, new Map(Object.entries(values)));

  test('has what was put in, and nothing that is empty', () => {
    const values = {
      name: ' web ',
      cpu: '2',
      gpu: 'false',
      keys: 'a\n\n b ',
      'disk.size': '1Gi',
      scheduler: '',
      agent: 'true',
    };
    expect(body(values)).toEqual({
      body: { name: 'web', cpu: 2, gpu: false, keys: ['a', 'b'], disk: { size: '1Gi' }, agent: {} },
      problems: [],
    });
  });

  test('names what cannot be sent', () => {
    expect(body({ cpu: 'two', affinity: '{' }).problems).toEqual([
      { field: 'cpu', message: 'is no number' },
      { field: 'affinity', message: 'is no JSON' },
    ]);
  });
});

test('a refusal is said at its field, and else above the form', () => {
  const problems = [
    { field: 'disk.size', message: 'too small' },
    { field: 'keys[0]', message: 'no key' },
    { field: 'nothing', message: 'unknown' },
  ];
  expect(['disk.size', 'keys', 'name'].map((path) => problemOf(problems, path))).toEqual([
    'too small',
    'no key',
    undefined,
  ]);
  expect(otherProblems(problems, form)).toEqual([problems[2]]);
});
