import { expect, test } from 'vitest';
import { createRemoteCatalog } from '../../../../src/http/remotes/remotes.ts';
import type { RegistryClient } from '../../../../src/registry/client.ts';

test('a registry is looked at under the name that references to it have', async () => {
  const looked: string[] = [];
  const catalog = createRemoteCatalog(
    ['http://Registry.lab', 'https://registry.example.com/disks', 'registry'],
    async (registry) => {
      looked.push(registry);
      const client = {
        registry,
        repositories: async () => ['disks/debian'],
        tags: async () => ['12'],
        close: async () => undefined,
      };
      return { version: '', open: () => client as unknown as RegistryClient };
    },
  );
  const { items } = await catalog.list('team', new AbortController().signal);
  expect(looked).toEqual(['registry.lab:80', 'registry.example.com', 'registry:443']);
  expect(items.map(({ name }) => name)).toEqual(looked.map((registry) => `${registry}/disks/debian:12`));
});
