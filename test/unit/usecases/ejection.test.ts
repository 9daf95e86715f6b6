import { expect, test, vi } from 'vitest';
import type { EffectiveSettings, Vm, VmSpec } from '../../../src/api/vm.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { eject } from '../../../src/usecases/ejection.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

const placed = (spec: Partial<VmSpec>, more: Partial<EffectiveSettings> = {}): Vm =>
  aVm({ spec, status: { effective: { ...effective, ...more } } });
const medium = { iso: 'store/installer@sha256:0', isoName: 'installer' };

test.each<[where: string, vm: Vm, said: string]>([
  ['it names one', placed({ iso: 'installer' }, medium), 'The CD drive of vm web is being emptied'],
  [
    'it names one and was not placed yet',
    aVm({ spec: { iso: 'installer' } }),
    'The CD drive of vm web is being emptied',
  ],
  [
    'it has that of its configuration',
    placed({ config: 'golden' }, medium),
    'The CD drive of vm web is being emptied',
  ],
  [
    'nobody has looked yet at what its configuration gives it',
    aVm({ spec: { config: 'golden' } }),
    'The CD drive of vm web is being emptied',
  ],
  [
    'it was asked for before',
    placed({ iso: '' }, medium),
    'The CD drive of vm web was asked to be emptied before',
  ],
  ['it never had one', placed({}), 'vm web has no CD'],
  ['its configuration gives it none', placed({ config: 'golden' }), 'vm web has no CD'],
  ['it was to have none from the beginning', placed({ iso: '', config: 'golden' }), 'vm web has no CD'],
])('the CD of a VM is asked to be taken out, and what is said is true where %s', async (_where, vm, said) => {
  const written: unknown[] = [];
  const caller = {
    patch: async (_resource: unknown, key: unknown, { body }: { body: unknown }) => written.push([key, body]),
  } as unknown as KubeClient;
  expect(await eject({ caller, find: async () => vm })).toBe(said);
  const body = { metadata: { uid: 'vm-uid' }, spec: { iso: '' } };
  expect(written).toEqual([[{ name: 'web', namespace: 'team' }, body]]);
});

test('the CD of another VM than the one that is meant stays', async () => {
  const patch = vi.fn<KubeClient['patch']>();
  const environment = {
    caller: { patch } as unknown as KubeClient,
    find: async () => placed({}, medium),
  };
  await expect(eject(environment, 'before')).rejects.toMatchObject({
    reason: 'Conflict',
    message: 'VM web is another one: its UID is vm-uid and not before',
  });
  expect(patch).not.toHaveBeenCalled();
  await eject(environment, 'vm-uid');
  expect(patch).toHaveBeenCalledTimes(1);
});
