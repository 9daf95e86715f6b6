import { expect, test } from 'vitest';
import { configMaps, nodes, vms } from '../../../src/api/resources.ts';
import { resourcePath, withQuery } from '../../../src/kube/path.ts';
import { warningsOf } from '../../../src/kube/reply.ts';

test.each([
  [
    'a core object',
    resourcePath(configMaps, { namespace: 'ns', name: 'a' }),
    '/api/v1/namespaces/ns/configmaps/a',
  ],
  ['all namespaces', resourcePath(configMaps), '/api/v1/configmaps'],
  ['a cluster-scoped object', resourcePath(nodes, { name: 'n', namespace: 'ignored' }), '/api/v1/nodes/n'],
  [
    'a subresource',
    resourcePath(vms, { namespace: 'ns', name: 'v', subresource: 'status' }),
    '/apis/svc3.dev/v1/namespaces/ns/vms/v/status',
  ],
  ['a name that tries to be a path', resourcePath(nodes, { name: '../x?y' }), '/api/v1/nodes/..%2Fx%3Fy'],
])('the path of %s', (_what, path, expected) => {
  expect(path).toBe(expected);
});

test('an object of a namespaced kind without a namespace, or without a name, has no path', () => {
  expect(() => resourcePath(configMaps, { name: 'a' })).toThrow('needs a namespace');
  expect(() => resourcePath(configMaps, { name: '', namespace: 'ns' })).toThrow('needs a name');
});

test('a query leaves out what is not set', () => {
  expect(withQuery('/a', { limit: 5, continue: undefined, watch: true, fieldSelector: 'a=b' })).toBe(
    '/a?limit=5&watch=true&fieldSelector=a%3Db',
  );
  expect(withQuery('/a', {})).toBe('/a');
});

test.each([
  [undefined, []],
  ['299 - "one"', ['one']],
  ['299 - "one, with a comma", 299 - "say \\"two\\""', ['one, with a comma', 'say "two"']],
  [
    ['299 - "a"', '299 - "b"'],
    ['a', 'b'],
  ],
])('the warnings in %o are %o', (warning, expected) => {
  expect(warningsOf(warning === undefined ? {} : { warning })).toEqual(expected);
});
