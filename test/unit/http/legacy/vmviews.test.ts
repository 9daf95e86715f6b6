import { describe, expect, test } from 'vitest';
import { annotations } from '../../../../src/api/meta.ts';
import type { Vm, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { vmResources } from '../../../../src/http/legacy/vmviews.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { condition } from '../../controllers/image/builders.ts';
import { aVm, effective } from '../../controllers/vm/builders.ts';
import { aGateway } from './builders.ts';

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
  const [group] = vmResources([vm], [config(spec)], { nodeStatus: () => 'UP', images: new Map() });
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

describe('what vm/list and vm/status tell of a VM', () => {
  const aNode = (name: string, ready: 'True' | 'False' | 'Unknown') => ({
    metadata: storedMeta({ name }),
    status: { conditions: [{ type: 'Ready', status: ready }] },
  });
  const nodes = [aNode('up', 'True'), aNode('down', 'False'), aNode('lost', 'Unknown')];

  async function told(vm: Vm): Promise<Record<string, unknown>[]> {
    const { ask } = aGateway({ cached: { vms: [vm] }, nodes });
    const answers = [
      await ask('GET', '/resources/vm/list'),
      await ask('GET', '/resources/vm/status/{vm}', { params: { vm: 'web' } }),
    ];
    const rows = answers.flatMap(({ fields }) => {
      const groups = fields?.['virtual_machine_resources'] as
        | { status: Record<string, unknown>[] }[]
        | undefined;
      return groups?.[0]?.status ?? [];
    });
    expect(rows).toHaveLength(answers.length);
    return rows;
  }

  test.each([
    ['up', 'UP'],
    ['down', 'DOWN'],
    ['lost', 'DOWN'],
    ['gone', 'DOWN'],
    [undefined, 'N/A'],
  ])('on node %s its node_status is %s', async (node, said) => {
    const status: VmStatus = node === undefined ? {} : { node };
    for (const row of await told(aVm({ status })))
      expect([row['node_location'], row['node_status']]).toEqual([node ?? '', said]);
  });

  test('is why it does not run, and nothing where it does', async () => {
    const waits = { ...condition('Scheduled', 'False', 'Unschedulable'), message: '0/2 nodes are available' };
    for (const row of await told(aVm({ status: { conditions: [waits] } })))
      expect([row['vm_status'], row['error_message']]).toEqual(['pending', '0/2 nodes are available']);
    const booted: VmStatus = { powerState: 'Running', conditions: [condition('Booted', 'True', 'Booted')] };
    for (const row of await told(aVm({ status: booted }))) {
      expect(row['vm_status']).toBe('running');
      expect(row).not.toHaveProperty('error_message');
    }
  });
});
