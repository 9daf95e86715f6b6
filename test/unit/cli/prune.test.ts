import { describe, expect, test } from 'vitest';
import type { DiskItem, Service, VmConfigItem, VmItem, VmPoolItem } from '../../../src/cli/service/types.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { run } from './environment.ts';

const disk = (name: string, state: DiskItem['state'] = 'Ready', more: Partial<DiskItem> = {}): DiskItem => ({
  name,
  namespace: 'x',
  state,
  ...more,
});

/** Runs `svc3 image prune` in a namespace with these. */
async function prune(...words: string[]) {
  const deleted: string[] = [];
  const service = {
    images: {
      list: async () => [
        disk('by-vm'),
        disk('by-config'),
        disk('by-place'),
        disk('by-tag'),
        disk('by-pinned-tag'),
        disk('by-tag-of-config'),
        disk('by-pool'),
        disk('by-guest'),
        disk('unused'),
        disk('failed', 'Failed'),
        disk('by-claim'),
        disk('made', 'Updating', { copyOf: 'by-copy' }),
        disk('by-copy'),
        disk('waits', 'Failed', { saveOf: 'saved' }),
        disk('waits-in-vain', 'Failed', { saveOf: 'never-there' }),
      ],
      delete: async (_namespace: string, name: string) => {
        if (name === 'by-claim')
          throw new Svc3Error('Conflict', 'image by-claim is in use by claim svc3-vm-db');
        deleted.push(name);
        return undefined;
      },
    } as Partial<Service['images']>,
    vms: {
      list: async () =>
        [
          { image: 'by-vm' },
          { image: `registry.example.com:5000/svc3/x/by-place@sha256:${'0'.repeat(64)}` },
          { image: 'registry.example.com:5000/svc3/x/by-tag:latest' },
          { image: `registry.example.com:5000/svc3/x/by-pinned-tag:latest@sha256:${'0'.repeat(64)}` },
          { name: 'saved', image: '' },
          { image: `registry.example.com:5000/svc3/y/unused@sha256:${'0'.repeat(64)}` },
        ] as VmItem[],
    } as Partial<Service['vms']>,
    vmConfigs: {
      list: async () =>
        [
          { image: 'by-config' },
          { image: 'registry.example.com:5000/svc3/x/by-tag-of-config:latest' },
        ] as VmConfigItem[],
    } as Partial<Service['vmConfigs']>,
    vmPools: {
      list: async () =>
        [
          {
            image: 'by-pool',
            images: [`registry.example.com:5000/svc3/x/by-guest@sha256:${'0'.repeat(64)}`],
          },
        ] as VmPoolItem[],
    } as Partial<Service['vmPools']>,
    close: () => Promise.resolve(),
  } as Partial<Service> as Service;
  const variables = { SVC3_API_URL: 'https://svc3.example.com', SVC3_TOKEN: 't' };
  const ended = await run(
    ['image', 'prune', '-n', 'x', '-o', 'name', ...words],
    { variables },
    { openHttp: () => Promise.resolve(service) },
  );
  return { ...ended, deleted };
}

describe('svc3 image prune', () => {
  test.each([[[]], [['--dry-run']]])(
    '%j lists the images that nothing uses and no VM waits for, and deletes none',
    async (words) => {
      const { code, stdout, deleted } = await prune(...words);
      expect([code, deleted]).toEqual([0, []]);
      expect(
        stdout
          .trim()
          .split('\n')
          .map((line) => line.split('/').at(-1)),
      ).toEqual(['unused', 'failed', 'by-claim', 'waits-in-vain']);
    },
  );

  test('--yes deletes them, but for those that the disks of deleted VMs were made on', async () => {
    const { code, deleted } = await prune('--yes');
    expect([code, deleted]).toEqual([0, ['unused', 'failed', 'waits-in-vain']]);
  });

  test('--yes --dry-run is refused', async () => {
    const { code, stderr, deleted } = await prune('--yes', '--dry-run');
    expect([code, deleted]).toEqual([2, []]);
    expect(stderr).toContain('--yes and --dry-run exclude each other');
  });
});
