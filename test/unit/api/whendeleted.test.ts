import { describe, expect, test } from 'vitest';
import type { Vm } from '../../../src/api/vm.ts';
import { goesWithVm } from '../../../src/api/whendeleted.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

describe('a disk', () => {
  const frozen = (disk: object, of: object) =>
    aVm({ spec: { disk }, status: { effective: { ...effective, disk: of } } });
  test.each<[what: string, vm: Vm, goes: boolean]>([
    ['stays where nobody says anything', frozen({}, {}), false],
    ['goes where the VM says so', frozen({ whenDeleted: 'Delete' }, {}), true],
    ['goes where its VMConfig said so', frozen({}, { whenDeleted: 'Delete' }), true],
    [
      'stays where the VM says other than its VMConfig',
      frozen({ whenDeleted: 'Retain' }, { whenDeleted: 'Delete' }),
      false,
    ],
  ])('%s', (_what, one, goes) => {
    expect(goesWithVm(one)).toBe(goes);
  });
});
