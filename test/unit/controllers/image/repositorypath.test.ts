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

  test('is reached as the address says', () => {
    expect([storeRegistry(store), storeScheme(store)]).toEqual(['store.example.com:5000', 'http']);
    expect(storeScheme({ url: 'r.example.com', prefix: '' })).toBe('https');
  });
});
