import { describe, expect, test } from 'vitest';
import type { Vm } from '../../../src/api/vm.ts';
import { disksThatGo, goesWithVm } from '../../../src/api/whendeleted.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

describe('a disk', () => {
  const frozen = (disk: object, of: object, template: object = { config: 'c' }) =>
    aVm({ spec: { disk, ...template }, status: { effective: { ...effective, disk: of } } });
  test.each<[what: string, vm: Vm, goes: boolean]>([
    ['stays where nobody says anything', frozen({}, {}), false],
    ['goes where the VM says so', frozen({ whenDeleted: 'Delete' }, {}), true],
    ['goes where its VMConfig said so', frozen({}, { whenDeleted: 'Delete' }), true],
    [
      'stays where the VM says it no longer, and there was no VMConfig to say it',
      frozen({}, { whenDeleted: 'Delete' }, {}),
      false,
    ],
    [
      'stays where the VM says other than its VMConfig',
      frozen({ whenDeleted: 'Retain' }, { whenDeleted: 'Delete' }),
      false,
    ],
  ])('%s', (_what, one, goes) => {
    expect(goesWithVm(one)).toBe(goes);
  });
});

describe('of a VM that is removed as one that never ran', () => {
  const disk = { storage: 'Persistent' } as const;
  const spec = {
    disk,
    disks: [
      { name: 'logs', size: '5Gi' },
      { name: 'old', claimName: 'archive' },
    ],
  };
  const marked = (vm: Partial<Pick<Vm, 'spec' | 'status'>>) =>
    aVm({ spec, ...vm, metadata: { ...aVm().metadata, annotations: { 'svc3.dev/never-ran': 'true' } } });

  test('the disks go that were made for it', () => {
    expect(disksThatGo(marked({}))).toEqual(['disk', 'disks[logs]']);
    expect(disksThatGo(aVm({ spec }))).toEqual([]);
    const named = { ...spec, disk: { ...disk, claimName: 'before' } };
    expect(disksThatGo(marked({ spec: { ...aVm().spec, ...named } }))).toEqual(['disks[logs]']);
  });

  test('none goes where it ran all the same, or of those that it no longer asks for', () => {
    expect(disksThatGo(marked({ status: { powerState: 'Stopped' } }))).toEqual([]);
    const frozen = { effective: { ...effective, disk, disks: spec.disks } };
    const without = { ...aVm().spec, disk, disks: [] };
    expect(disksThatGo(marked({ spec: without, status: frozen }))).toEqual(['disk']);
  });
});
