import { expect, test } from 'vitest';
import * as z from 'zod';
import type { Svc3Error } from '../../../src/errors.ts';
import { validate } from '../../../src/wire/fields.ts';
import type { JsonValue } from '../../../src/wire/fields.ts';

const schema = z.object({
  name: z.string(),
  displayDPI: z.int().optional(),
  inner: z.object({ list: z.array(z.object({ Key: z.string() })) }).optional(),
});

function checked(value: JsonValue): { value: unknown; warnings: string[] } {
  const warnings: string[] = [];
  return { value: validate(schema, value, 'body', (text) => warnings.push(text)), warnings };
}

test('names match in any case, at any depth', () => {
  expect(checked({ NAME: 'a', displaydpi: 96, Inner: { LIST: [{ key: 'k' }] } })).toEqual({
    value: { name: 'a', displayDPI: 96, inner: { list: [{ Key: 'k' }] } },
    warnings: [],
  });
});

test('unknown fields are left out and warned of', () => {
  expect(checked({ name: 'a', colour: 1, inner: { list: [], size: 2 } })).toEqual({
    value: { name: 'a', inner: { list: [] } },
    warnings: ['unknown field "colour"', 'unknown field "inner.size"'],
  });
});

test('null is as good as absent', () => {
  expect(checked({ name: 'a', displayDPI: null }).value).toEqual({ name: 'a' });
});

test('a value that is null as a whole is as good as none', () => {
  expect(validate(schema.optional(), null, 'body', () => undefined)).toBeUndefined();
});

test.each([
  ['the same field in two cases', { name: 'a', Name: 'b' }, 'Name', 'FieldValueDuplicate'],
  ['a missing field', {}, 'name', 'FieldValueRequired'],
  [
    'a wrong type far inside',
    { name: 'a', inner: { list: [{ key: 1 }] } },
    'inner.list[0].Key',
    'FieldValueInvalid',
  ],
  ['no object', [], 'body', 'FieldValueInvalid'],
  ['null where a value is required', null, 'body', 'FieldValueRequired'],
] as const)('%s is refused and named', (_, value, field, reason) => {
  try {
    checked(value as unknown as JsonValue);
    expect.unreachable();
  } catch (error) {
    expect((error as Svc3Error).details.causes).toEqual([{ field, reason, message: expect.any(String) }]);
  }
});
