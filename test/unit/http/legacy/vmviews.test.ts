import { describe, expect, test } from 'vitest';
import { annotations } from '../../../../src/api/meta.ts';
import type { VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { vmResources } from '../../../../src/http/legacy/vmviews.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';

const config = (spec: Partial<VmConfig['spec']>): VmConfig => ({
  metadata: storedMeta({ name: 'golden', namespace: 'team' }),
  spec: { image: 'debian-13', ...spec },
});

/** The VM of configuration golden as 2.4.x lists it; the configuration is as given. */
function listed(
  given: { spec?: Partial<VmSpec>; status?: VmStatus },
  spec: Partial<VmConfig['spec']> = {},
): Record<string, unknown> {
  const metadata = { annotations: { [annotations.virtualMachineName]: 'golden' } };
  const { image: _, ...own } = aVm().spec;
  const vm = { ...aVm({ ...given, metadata }), spec: { ...own, config: 'golden', ...given.spec } };
  const [group] = vmResources([vm], [config(spec)]);
  return (group?.['status'] as Record<string, unknown>[] | undefined)?.[0] ?? {};
}

describe('a VM in a list of 2.4.x', () => {
  test.each<[where: string, given: Parameters<typeof listed>[0], expected: object]>([
    [
      'runs what was frozen when it was placed, whatever its configuration says since',
      {
        status: {
          effective: { ...effective, imageName: 'debian-12', tag: 'old', tagRequired: true, cpu: 2 },
        },
      },
      { base_image: 'debian-12', tag: 'old', tag_required: true, cpu: 2, vcpu: 2 },
    ],
    [
      'had no tag when it was placed',
      { status: { effective: { ...effective, imageName: 'debian-12' } } },
      { base_image: 'debian-12', tag: '', tag_required: false },
    ],
    [
      'was not placed yet and gets what its configuration says',
      {},
      { base_image: 'debian-13', tag: 'new', tag_required: true, cpu: 8, RAM: '20G' },
    ],
    [
      'says for itself what is not to be inherited',
      { spec: { image: 'alpine', tag: 'own', tagRequired: false } },
      { base_image: 'alpine', tag: 'own', tag_required: false },
    ],
  ])('%s', (_where, given, expected) => {
    expect(listed(given, { tag: 'new', tagRequired: true, cpu: 8 })).toMatchObject(expected);
  });
});
