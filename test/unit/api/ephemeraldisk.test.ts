import { expect, test } from 'vitest';
import { withoutClaim } from '../../../src/api/ephemeraldisk.ts';
import type { Disk } from '../../../src/api/vmconfig.ts';

const why =
  'the disk is Ephemeral and goes with its pod; only one with disk.storage Persistent is on a claim';
const warning = (member: string) => `disk.${member} has no effect: ${why}`;
const asked = { storageClassName: 'fast', whenDeleted: 'Retain' } as const;

test.each<[what: string, disk: Disk | undefined, warnings: string[]]>([
  ['nothing', undefined, []],
  ['its size', { size: '40Gi' }, []],
  ['a storage class', { storageClassName: 'fast', size: '40Gi' }, [warning('storageClassName')]],
  ['what becomes of it', { whenDeleted: 'Delete' }, [warning('whenDeleted')]],
  ['both', asked, [warning('storageClassName'), warning('whenDeleted')]],
  [
    'both, and Ephemeral',
    { ...asked, storage: 'Ephemeral' },
    ['storageClassName', 'whenDeleted'].map(warning),
  ],
  ['both, and Persistent', { ...asked, storage: 'Persistent' }, []],
])('of a disk of which is said: %s', (_what, disk, warnings) => {
  expect(withoutClaim(disk)).toEqual(warnings);
});
