import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutAllManagedFields, cutManagedFields } from '../../../src/kube/managedfields.ts';

function cut(text: string): string {
  return cutManagedFields(Buffer.from(text)).toString('utf8');
}

/** What a server keeps for each manager; keys of lists hold JSON of their own. */
const fieldsV1 = fc.dictionary(
  fc.oneof(
    fc.string({ minLength: 1 }).map((name) => `f:${name}`),
    fc
      .anything({ withObjectString: false })
      .map((value) => `k:${JSON.stringify({ a: [{ b: value }], c: [{}] })}`),
    fc.constantFrom('k:{"a":[{}],"b":1}', 'k:{"a":[{"b":"]}],"}]}', 'v:"}],"', 'v:"}]},"', '.'),
  ),
  fc.constantFrom({}, { '.': {} }, { 'f:a': {} }),
);

const entries = fc.array(
  fc.record({
    manager: fc.string(),
    operation: fc.constantFrom('Apply', 'Update'),
    fieldsV1,
    time: fc.string(),
  }),
  { maxLength: 4 },
);

describe('the text of an object without its managedFields', () => {
  test('is that of the object without them, whatever stands in them, as built-in kinds are written', () => {
    fc.assert(
      fc.property(entries, fc.string(), (managedFields, text) => {
        const object = { metadata: { name: text, managedFields }, spec: { text, list: [{ a: [{}] }] } };
        const { managedFields: gone, ...metadata } = object.metadata;
        const expected = gone.length === 0 ? object : { ...object, metadata };
        expect(JSON.parse(cut(JSON.stringify(object)))).toEqual(expected);
      }),
    );
  });

  test('is that of the object without them, as custom kinds are written', () => {
    fc.assert(
      fc.property(entries, fc.string(), (managedFields, text) => {
        const metadata = { generation: 1, managedFields, name: text, ownerReferences: [{ uid: text }] };
        const object = { apiVersion: 'a', metadata, spec: { text, list: [{ a: [{}] }] } };
        const { managedFields: gone, ...rest } = metadata;
        const expected = gone.length === 0 ? object : { ...object, metadata: rest };
        expect(JSON.parse(cut(JSON.stringify(object)))).toEqual(expected);
      }),
    );
  });

  test.each([
    ['has none', '{"metadata":{"name":"a"}}'],
    ['has an empty list', '{"metadata":{"name":"a","managedFields":[],"x":[{}],"y":1}}'],
    ['has them at its very end', '{"metadata":{"name":"a","managedFields":[{"manager":"b"}]}}'],
    ['has a label of that name', '{"metadata":{"labels":{"a":"b","managedFields":"[{}],"},"name":"a"}}'],
    ['is cut off', '{"metadata":{"name":"a","managedFields":[{"manager":"b"'],
  ])('is the same text where the object %s', (_, text) => {
    expect(cut(text)).toBe(text);
  });
});

describe('the text of a list without the managedFields of its objects', () => {
  const cutAll = (text: string): string => cutAllManagedFields(Buffer.from(text)).toString('utf8');

  test('is that of the objects without them, whatever stands in them and however the objects end', () => {
    const objects = fc.array(fc.record({ managedFields: entries, text: fc.string(), isBare: fc.boolean() }));
    fc.assert(
      fc.property(objects, (wanted) => {
        const list = (hasFields: boolean) => ({
          kind: 'PodList',
          metadata: { resourceVersion: '1' },
          items: wanted.map(({ managedFields, text, isBare }) => ({
            metadata: {
              name: text,
              ...(hasFields || managedFields.length === 0 ? { managedFields } : {}),
              ...(isBare ? {} : { uid: text }),
            },
            ...(isBare ? {} : { spec: { text, list: [{ a: [{}] }] } }),
          })),
        });
        expect(JSON.parse(cutAll(JSON.stringify(list(true))))).toEqual(list(false));
      }),
    );
  });

  test.each([
    ['has no objects', '{"items":[],"metadata":{}}'],
    ['has an object that tells of them in a text', '{"items":[{"data":{"a":",\\"managedFields\\":[{}]"}}]}'],
    ['is cut off', '{"items":[{"metadata":{"name":"a","managedFields":[{"manager":"b]"'],
  ])('is the same text where it %s', (_, text) => {
    expect(cutAll(text)).toBe(text);
  });
});
