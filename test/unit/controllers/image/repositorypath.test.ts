import { describe, expect, test } from 'vitest';
import {
  repositoryPathOf,
  referenceOf,
  storeRegistry,
  storeScheme,
} from '../../../../src/controllers/image/repositorypath.ts';

const store = { url: 'http://store.example.com:5000/disks/', prefix: 'svc3' };

describe('the repository path of a disk', () => {
  test('is a repository for each name of a namespace, ISOs apart', () => {
    expect(repositoryPathOf(store, 'Image', 'team', 'a')).toEqual({
      registry: 'store.example.com:5000',
      repository: 'disks/svc3/team/a',
    });
    expect(repositoryPathOf(store, 'ISO', 'team', 'a').repository).toBe('disks/svc3/team/iso/a');
    expect(repositoryPathOf({ url: 'r.example.com', prefix: '' }, 'Image', 'team', 'a').repository).toBe(
      'team/a',
    );
    expect(referenceOf(repositoryPathOf(store, 'Image', 'team', 'a'), 'sha256:1')).toBe(
      'store.example.com:5000/disks/svc3/team/a@sha256:1',
    );
  });

  test.each([
    ['http://Registry.registry.svc', 'registry.registry.svc:80'],
    ['http://registry.registry.svc:80', 'registry.registry.svc:80'],
    ['http://[FD00::1]', '[fd00::1]:80'],
    ['http://Registry.registry.svc:5000', 'registry.registry.svc:5000'],
    ['https://Registry.example.com', 'registry.example.com'],
    ['https://registry', 'registry:443'],
    ['https://[fd00::1]', '[fd00::1]:443'],
    ['https://registry.example.com:443', 'registry.example.com:443'],
    ['', ''],
  ])('in the store at %s is named with %s, which is where nodes pull from', (url, registry) => {
    expect(storeRegistry({ url })).toBe(registry);
    expect(repositoryPathOf({ url, prefix: 'svc3' }, 'Image', 'team', 'a')).toEqual({
      registry,
      repository: 'svc3/team/a',
    });
  });

  test('is reached as the address says', () => {
    expect([storeRegistry(store), storeScheme(store)]).toEqual(['store.example.com:5000', 'http']);
    expect(storeScheme({ url: 'r.example.com', prefix: '' })).toBe('https');
  });
});
