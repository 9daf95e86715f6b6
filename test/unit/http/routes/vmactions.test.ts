import { describe, expect, test } from 'vitest';
import type { EffectiveSettings, Vm, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import { isSvc3Error } from '../../../../src/errors.ts';
import { committedImage, savedImage } from '../../../../src/wire/saving.ts';
import { vmItem } from '../../../../src/wire/vm.ts';
import { condition } from '../../controllers/image/builders.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';

const booted: VmStatus = {
  powerState: 'Running',
  conditions: [condition('Booted', 'True', 'Booted')],
};
const runs = (more: Partial<EffectiveSettings> = {}, spec: Partial<VmSpec> = {}): Vm =>
  aVm({ spec, status: { ...booted, effective: { ...effective, ...more } } });
const of = (imageName: string) => ({ imageName });

/** Whether a request is carried out; it is refused with a conflict else. */
function isTaken(request: () => unknown): boolean {
  try {
    request();
    return true;
  } catch (error) {
    if (isSvc3Error(error, 'Conflict')) return false;
    throw error;
  }
}

describe('what the item of a VM says that can be saved', () => {
  test.each<[string, Vm, readonly string[]]>([
    ['runs from an Image', runs(of('debian')), ['Disk', 'Memory', 'Commit']],
    ['runs from a registry reference', runs(), ['Disk', 'Memory']],
    [
      'runs from an Image of another namespace',
      runs({ ...of('debian'), imageNamespace: 'shared' }),
      ['Disk', 'Memory'],
    ],
    ['was placed before names were frozen', runs({}, { image: 'debian' }), ['Disk', 'Memory', 'Commit']],
    ['has a GPU', runs({ ...of('debian'), gpuPassthrough: 'Enabled' }), ['Disk', 'Commit']],
    [
      'is on ARM, where its GPU is no card',
      runs({ ...of('debian'), gpuPassthrough: 'Enabled', architecture: 'arm64' }),
      ['Disk', 'Memory', 'Commit'],
    ],
    [
      'has data disks',
      runs({ ...of('debian'), disks: [{ name: 'data', size: '1Gi' }] as never }),
      ['Disk', 'Commit'],
    ],
    [
      'was started with a CD',
      runs({ ...of('debian'), iso: 'r.example.com/cd' }, { iso: '' }),
      ['Disk', 'Commit'],
    ],
    [
      'is stopped',
      aVm({ status: { powerState: 'Stopped', effective: { ...effective, ...of('debian') } } }),
      ['Disk', 'Commit'],
    ],
    ['has crashed', aVm({ status: { powerState: 'Failed', effective } }), ['Disk']],
    [
      'has failed before it ever booted',
      aVm({ status: { effective, conditions: [condition('Stalled', 'True', 'NoImage')] } }),
      [],
    ],
    ['was not placed yet', aVm(), []],
    [
      'is being deleted',
      aVm({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' }, status: { ...booted, effective } }),
      [],
    ],
  ])('where it %s is what is carried out', (_, vm, saves) => {
    expect(vmItem(vm).saves ?? []).toEqual(saves);
    const taken = {
      Disk: isTaken(() => savedImage(vm, { imageName: 'saved' })),
      Memory: isTaken(() => savedImage(vm, { imageName: 'saved', memory: true })),
      Commit: isTaken(() => committedImage(vm, undefined)),
    };
    expect(Object.entries(taken).flatMap(([what, is]) => (is ? [what] : []))).toEqual(saves);
  });
});
