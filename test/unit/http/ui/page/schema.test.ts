import { describe, expect, test } from 'vitest';
import { routes } from '../../../../../src/http/routes/table.ts';
import { openApiOf } from '../../../../../src/http/server/openapi.ts';
import {
  bodyOf,
  fieldsOf,
  itemFields,
  otherProblems,
  ownProblemOf,
  problemOf,
  titleOf,
  withItem,
  without,
  withoutItem,
  type Field,
  type Schemas,
} from '../../../../../src/http/ui/page/schema.ts';
import { leftOutOfChange, offeredOfChange } from '../../../../../src/http/ui/page/verbs.ts';
import { vmChangeOf, type VmChangeRequest } from '../../../../../src/wire/vmchange.ts';
import { VmSpec } from '../../../../../src/api/vm.ts';

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
      disks: {
        type: 'array',
        items: {
          type: 'object',
          required: ['name'],
          properties: {
            name: { type: 'string' },
            copies: { type: 'integer' },
            from: { $ref: '#/components/schemas/Disk' },
            terms: { type: 'array', items: { type: 'object', properties: { key: { type: 'string' } } } },
          },
        },
      },
      pairs: { type: 'array', items: { type: 'array', items: { type: 'string' } } },
    },
  },
  schemas,
);

describe('the fields of a schema', () => {
  test('are inputs for what the schema says', () => {
    const kinds = (fields: readonly Field[]): unknown[] =>
      fields.map(({ path, kind, fields }) => (fields.length > 0 ? [path, kinds(fields)] : `${path} ${kind}`));
    expect(kinds(form)).toEqual([
      'name text',
      'cpu number',
      'gpu flag',
      'scheduler choice',
      'keys lines',
      ['disk', ['disk.size text', 'disk.storage choice']],
      'agent presence',
      'affinity json',
      [
        'disks',
        [
          'disks[].name text',
          'disks[].copies number',
          ['disks[].from', ['disks[].from.size text', 'disks[].from.storage choice']],
          ['disks[].terms', ['disks[].terms[].key text']],
        ],
      ],
      'pairs json',
    ]);
    expect(form.find(({ path }) => path === 'disks')?.kind).toBe('list');
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
      ['name', 'cpu', 'memory', 'gpuPassthrough', 'scheduler', 'sshAuthorizedKeys', 'disk', 'disks'].map(
        kindOf,
      ),
    ).toEqual(['text', 'number', 'number', 'flag', 'choice', 'lines', 'group', 'list']);
    // The page does not wait, and says what that means.
    expect(fields.find(({ path }) => path === 'timeout')?.help).toContain('wait=false');
  });
});

describe('a form without some fields', () => {
  const pathsOf = (fields: readonly Field[]): string[] =>
    fields.flatMap(({ path, fields: inner }) => [path, ...pathsOf(inner)]);

  test('has the others, and no group without any', () => {
    const paths = pathsOf(form);
    expect(pathsOf(without(form, new Set(['cpu', 'disk.size'])))).toEqual(
      paths.filter((path) => path !== 'cpu' && path !== 'disk.size'),
    );
    expect(pathsOf(without(form, new Set(['disk.size', 'disk.storage'])))).toEqual(
      paths.filter((path) => !/^disk(\.|$)/.test(path)),
    );
    // What has no fields to begin with is no group.
    expect(pathsOf(without(form, new Set()))).toEqual(paths);
  });

  test('is that of a change: what never changes is there, and is left out', () => {
    const { components } = openApiOf(routes) as { components: { schemas: Schemas } };
    const fields = fieldsOf(components.schemas['VMChangeRequest'] ?? {}, components.schemas);
    expect(pathsOf(fields)).toEqual(expect.arrayContaining([...leftOutOfChange]));
    const offered = without(fields, leftOutOfChange);
    expect(pathsOf(offered)).toEqual(
      expect.arrayContaining(['cpu', 'memory', 'disk', 'disk.whenDeleted', 'timeout']),
    );
    expect(pathsOf(offered).filter((path) => leftOutOfChange.has(path))).toEqual([]);
    expect(pathsOf(offered).filter((path) => /size|storage/i.test(path))).toEqual([]);
  });
});

describe('the form of a change of a VM of a pool', () => {
  const body: VmChangeRequest = { customVMMetadata: 'a=b', sshAuthorizedKeys: ['ssh-ed25519 A'], timeout: 3 };

  test('has the settings that its template does not fix, and no others', () => {
    const { components } = openApiOf(routes) as { components: { schemas: Schemas } };
    const names = fieldsOf(components.schemas['VMChangeRequest'] ?? {}, components.schemas).map(
      ({ path }) => path,
    );
    const offered = offeredOfChange({ pool: 'ci' });
    expect(names.filter((name) => offered?.has(name)).toSorted()).toEqual(Object.keys(body).toSorted());
    expect(offeredOfChange({})).toBeUndefined();
  });

  test('has what kube-apiserver takes of such a VM', () => {
    const rules = JSON.stringify(VmSpec.meta());
    const excluded = (field: string) => rules.includes(`pool excludes ${field},`);
    expect(Object.keys(vmChangeOf(body)).filter(excluded)).toEqual([]);
    expect(excluded('disk') && excluded('cpu')).toBe(true);
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

describe('a list', () => {
  const disks = form.find(({ path }) => path === 'disks')!;
  const values = new Map([
    ['name', 'web'],
    ['disks', '3'],
    ['disks[0].name', 'a'],
    ['disks[1].name', 'b'],
    ['disks[1].from.size', '1Gi'],
    ['disks[2].name', 'c'],
    ['disks[2].terms', '2'],
    ['disks[2].terms[0].key', 'x'],
    ['disks[2].terms[1].key', 'y'],
  ]);

  test('is its items, and nothing without any', () => {
    expect(bodyOf([disks], values).body).toEqual({
      disks: [
        { name: 'a' },
        { name: 'b', from: { size: '1Gi' } },
        { name: 'c', terms: [{ key: 'x' }, { key: 'y' }] },
      ],
    });
    expect(bodyOf([disks], new Map()).body).toEqual({});
    expect(bodyOf([disks], withItem(new Map(), 'disks')).body).toEqual({ disks: [{}] });
    expect(bodyOf([disks], withoutItem(withItem(new Map(), 'disks'), 'disks', 0)).body).toEqual({});
  });

  test('loses the item that is taken out, and no other', () => {
    expect(bodyOf([disks], withoutItem(values, 'disks', 1)).body).toEqual({
      disks: [{ name: 'a' }, { name: 'c', terms: [{ key: 'x' }, { key: 'y' }] }],
    });
    expect(bodyOf([disks], withoutItem(values, 'disks[2].terms', 0)).body).toEqual({
      disks: [{ name: 'a' }, { name: 'b', from: { size: '1Gi' } }, { name: 'c', terms: [{ key: 'y' }] }],
    });
    expect(withoutItem(values, 'disks', 2).get('name')).toBe('web');
  });

  test('has what is wrong at the field of an item, else at itself', () => {
    const wrong = bodyOf([disks], new Map(values).set('disks[1].copies', 'two'));
    expect(wrong.problems).toEqual([{ field: 'disks[1].copies', message: 'is no number' }]);
    const problems = [
      { field: 'disks[1].from.size', message: 'too small' },
      { field: 'disks[1]', message: 'not both' },
      { field: 'disks', message: 'too many' },
      { field: 'name', message: 'taken' },
    ];
    const fields = itemFields(disks, 1);
    expect(problemOf(problems, fields[2]?.fields[0]?.path ?? '')).toBe('too small');
    expect(ownProblemOf(problems, 'disks', [...itemFields(disks, 0), ...fields])).toBe('not both; too many');
  });
});

test('what is said of a group and of no field of it is said at the group', () => {
  const disk = form.find(({ path }) => path === 'disk')!;
  const problems = [
    { field: 'disk', message: 'cannot be both' },
    { field: 'disk.size', message: 'too small' },
  ];
  expect(ownProblemOf(problems, 'disk', disk.fields)).toBe('cannot be both');
  expect(ownProblemOf(problems.slice(1), 'disk', disk.fields)).toBeUndefined();
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
