import { describe, expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { VmConfig } from '../../../src/api/vmconfig.ts';
import { Svc3Error } from '../../../src/errors.ts';
import { refuseWhileUsed } from '../../../src/usecases/diskusers.ts';
import { storedMeta } from '../../support/storedmeta.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const ready: Image = {
  metadata: storedMeta({ name: 'golden', namespace: 'team' }),
  spec: { source: { upload: {} } },
  status: { reference: `store.example.com/team/golden@${digest('b')}`, digest: digest('b') },
};
const empty: Image = { ...ready, status: {} };
const named = (name: string, given: Parameters<typeof aVm>[0]) => aVm({ ...given, metadata: { name } });
const running = (name: string, reference: string) =>
  named(name, {
    spec: { image: 'r.example.com/other' },
    status: { effective: { ...effective, image: reference } },
  });
const config: VmConfig = { metadata: storedMeta({ name: 'small' }), spec: { image: 'golden' } };

function refusal(vms: Vm[], disk = ready): string | undefined {
  try {
    refuseWhileUsed({ vms, config: (name) => (name === 'small' ? config : undefined) }, disk, 'image');
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(Svc3Error);
    expect(error).toMatchObject({ reason: 'Conflict', details: { name: 'golden', kind: 'images' } });
    return (error as Error).message;
  }
}

describe('a disk is in use by', () => {
  test.each<[what: string, vm: Vm, isUsed: boolean]>([
    ['a VM that runs from it', running('web', `store.example.com/team/golden@${digest('b')}`), true],
    [
      'a VM that runs from an earlier version of it',
      running('web', `store.example.com/team/golden@${digest('a')}`),
      true,
    ],
    ['no VM that runs from another', running('web', `store.example.com/team/golden-2@${digest('b')}`), false],
    ['a VM that waits to be placed from it', named('web', { spec: { image: 'golden' } }), true],
    ['one whose configuration names it', named('web', { spec: { image: undefined, config: 'small' } }), true],
    [
      'none whose own image overrides that',
      named('web', { spec: { image: 'other', config: 'small' } }),
      false,
    ],
    [
      'none whose configuration is not there',
      named('web', { spec: { image: undefined, config: 'gone' } }),
      false,
    ],
  ])('%s', (_what, vm, isUsed) => {
    expect(refusal([vm])).toBe(isUsed ? 'image golden is in use by VM web' : undefined);
  });
});

test('nobody can start from one that holds nothing yet', () => {
  expect(refusal([named('web', { spec: { image: 'golden' } })], empty)).toBeUndefined();
});

test('ten are named, in the order of their names, and the rest is counted', () => {
  const vms = Array.from({ length: 12 }, (_, i) =>
    named(`vm-${String(11 - i).padStart(2, '0')}`, { spec: { image: 'golden' } }),
  );
  expect(refusal(vms)).toBe(
    'image golden is in use by VMs vm-00, vm-01, vm-02, vm-03, vm-04, vm-05, vm-06, vm-07, vm-08, vm-09 and 2 more',
  );
});

test('one elsewhere whose configuration here names it, without its name', () => {
  const vm = aVm({
    metadata: { name: 'secret', namespace: 'ci' },
    spec: { image: undefined, config: 'small', configNamespace: 'team' },
  });
  expect(refusal([vm])).toBe('image golden is in use by VM of namespace ci');
});
