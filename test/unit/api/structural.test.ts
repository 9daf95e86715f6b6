import { expect, test } from 'vitest';
import { z } from 'zod';
import { structuralSchema } from '../../../src/api/structural.ts';

const text = z.string().max(10).describe('Text.');

test('a bounded schema becomes structural, with its Kubernetes extensions', () => {
  const schema = z
    .object({
      name: text.default('x'),
      rows: z
        .array(z.object({ key: text }))
        .max(3)
        .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['key'] })
        .optional()
        .describe('Rows.'),
    })
    .describe('All.');
  expect(structuralSchema(schema)).toEqual({
    type: 'object',
    description: 'All.',
    properties: {
      name: { type: 'string', maxLength: 10, default: 'x', description: 'Text.' },
      rows: {
        type: 'array',
        maxItems: 3,
        description: 'Rows.',
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['key'],
        items: {
          type: 'object',
          required: ['key'],
          properties: { key: { type: 'string', maxLength: 10, description: 'Text.' } },
        },
      },
    },
  });
});

test.each([
  ['a string without maxLength', z.object({ a: z.string().describe('A.') }), '.a has no maxLength'],
  ['an unbounded int', z.object({ a: z.number().min(1).describe('A.') }), '.a is a float; use a quantity'],
  ['an array without maxItems', z.object({ a: z.array(text).describe('A.') }), '.a has no maxItems or items'],
  ['a union', z.object({ a: z.union([z.string(), z.int()]).describe('A.') }), '.a: anyOf is not structural'],
  ['a nullable field', z.object({ a: text.nullable().describe('A.') }), '.a: nullable is not structural'],
  ['an untyped field', z.object({ a: z.unknown().describe('A.') }), '.a has no type'],
  ['a map', z.object({ a: z.record(z.string(), text).describe('A.') }), '.a is a map without maxProperties'],
  ['a field without a description', z.object({ a: z.string().max(1) }), '.a has no description'],
])('%s is refused with the field named', (_, schema, message) => {
  expect(() => structuralSchema(schema.describe('All.'))).toThrow(message);
});

test('a map with a bound, and an object that is kept as it is', () => {
  const schema = z.object({
    labels: z.record(z.string(), text).meta({ maxProperties: 16 }).describe('Labels.'),
    opaque: z.looseObject({}).meta({ 'x-kubernetes-preserve-unknown-fields': true }).describe('Anything.'),
  });
  expect(structuralSchema(schema.describe('All.')).properties).toMatchObject({
    labels: { type: 'object', maxProperties: 16, additionalProperties: { type: 'string' } },
    opaque: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  });
});
