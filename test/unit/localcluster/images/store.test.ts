import { expect, test } from 'vitest';
import { hasTags } from '../../../../src/localcluster/images/store.ts';
import { memoryRegistry } from '../../registry/memoryregistry.ts';

test.each<[string, Record<string, string>, boolean]>([
  ['nothing', {}, false],
  ['the first of two tags', { a1: 'a' }, false],
  ['another image under the second', { a1: 'a', latest: 'b' }, false],
  ['one image under both', { a1: 'a', latest: 'a' }, true],
])('a registry with %s', async (_, contents, has) => {
  const client = memoryRegistry();
  for (const [tag, content] of Object.entries(contents))
    client.put('svc3/guest', tag, { schemaVersion: 2, annotations: { content } });
  expect(await hasTags(client, 'svc3/guest', ['a1', 'latest'])).toBe(has);
});
