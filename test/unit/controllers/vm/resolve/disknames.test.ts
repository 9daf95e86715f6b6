import { expect, test } from 'vitest';
import type { Vm } from '../../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../../src/api/vmconfig.ts';
import type { VmPool } from '../../../../../src/api/vmpool.ts';
import { namesDisk } from '../../../../../src/controllers/vm/resolve/disknames.ts';
import { aConfig } from '../../vmconfig/builders.ts';
import { aPool, aPoolVm } from '../../vmpool/builders.ts';
import { aVm } from '../builders.ts';

/** `team/web`. */
const config = aConfig({ image: 'golden', iso: 'setup' });
const configured = { image: undefined, config: 'web' };

const sources = (pool: VmPool = aPool()) => ({
  vmConfig: (name: string, namespace: string): VmConfig | undefined =>
    `${namespace}/${name}` === 'team/web' ? config : undefined,
  vmPool: (name: string, namespace: string): VmPool | undefined =>
    `${namespace}/${name}` === 'team/ci' ? pool : undefined,
});
const vm = (spec: Partial<Vm['spec']>, namespace = 'team'): Vm =>
  aVm({ spec, metadata: { ...aVm().metadata, namespace } });
const elsewhere = { ...configured, configNamespace: 'team' };

test.each<[what: string, vm: Vm, names: readonly string[]]>([
  ['what it says itself', vm({ image: 'golden', iso: 'setup' }), ['image team/golden', 'iso team/setup']],
  ['what its VMConfig says', vm(configured), ['image team/golden', 'iso team/setup']],
  ['its own image before that', vm({ ...configured, image: 'other' }), ['iso team/setup']],
  ['no medium that it wants out', vm({ ...configured, iso: '' }), ['image team/golden']],
  ['those beside the VMConfig', vm(elsewhere, 'x'), ['image team/golden', 'iso team/setup']],
  ['its own beside itself', vm({ ...elsewhere, image: 'golden' }, 'x'), ['image x/golden', 'iso team/setup']],
  ['nothing of a VMConfig that is not there', vm({ ...configured, config: 'gone' }), []],
  ['nothing of a registry', vm({ image: 'r.example.com/golden' }), []],
  ['nothing of a pool that is not there', aPoolVm('a', { spec: { pool: 'gone' } }), []],
])('a VM names %s', (_what, named, names) => {
  expect(disksNamed(named)).toEqual(names);
});

test('a VM of a pool names what the template says, or its VMConfig', () => {
  expect(disksNamed(aPoolVm('a'), aPool({ template: { image: 'golden' } }))).toEqual(['image team/golden']);
  const ofConfig = aPool({ template: { config: 'web' } });
  expect(disksNamed(aPoolVm('a'), ofConfig)).toEqual(['image team/golden', 'iso team/setup']);
});

function disksNamed(named: Vm, pool?: VmPool): string[] {
  const disks = (['image', 'iso'] as const).flatMap((field) =>
    ['team', 'x'].flatMap((namespace) => ['golden', 'setup'].map((name) => ({ field, namespace, name }))),
  );
  return disks
    .filter((disk) => namesDisk(named, disk, sources(pool)))
    .map(({ field, namespace, name }) => `${field} ${namespace}/${name}`);
}
