import { expect, test } from 'vitest';
import type { Vm, VmSpec } from '../../../../../src/api/vm.ts';
import {
  disposeOfDisk,
  disposeOfNewDisk,
  keepDisks,
} from '../../../../../src/controllers/vm/life/disposal.ts';
import { invalidField } from '../../../../../src/errors.ts';
import type { KubeClient } from '../../../../../src/kube/types.ts';
import { aVm, effective } from '../builders.ts';

type Disk = NonNullable<VmSpec['disk']>;

function held(spec: Partial<VmSpec>, frozen?: Disk, finalizers: string[] = ['svc3.dev/cleanup']): Vm {
  const status = frozen === undefined ? {} : { effective: { ...effective, disk: frozen } };
  return aVm({ spec, status, metadata: { finalizers, resourceVersion: '7' } });
}

async function written(dispose: typeof disposeOfDisk, vm: Vm): Promise<unknown> {
  let body: unknown;
  const patch = async (_resource: unknown, _key: unknown, given: { body: unknown }) => {
    body = given.body;
    return vm;
  };
  expect(await dispose({ patch } as unknown as KubeClient, vm)).toBe(vm);
  return body;
}

const persistent: Disk = { storage: 'Persistent' };
const spec = { disk: { whenDeleted: 'Delete' } };
const own = { disk: { ...persistent, whenDeleted: 'Delete' } } as const;
const gone = { config: 'c', ...own } as const;
const neverRan = { 'svc3.dev/never-ran': 'true' };

test.each<[what: string, vm: Vm, always: boolean, whereNew: boolean]>([
  ['an Ephemeral disk', held({}, {}), false, false],
  ['a Persistent disk', held({ disk: persistent }, persistent), true, true],
  ['one that the VMConfig asked for', held({ config: 'c' }, persistent), true, true],
  ['one that the VMConfig may ask for', held({ config: 'c' }), true, true],
  ['one that goes anyhow', held({ disk: { ...persistent, whenDeleted: 'Delete' } }), false, false],
  ['one that was there before', held({ disk: { ...persistent, claimName: 'c' } }), true, false],
  ['one that has not been made', held({ disk: persistent }, undefined, []), true, false],
])('%s', async (_what, vm, always, whereNew) => {
  const { uid, resourceVersion } = vm.metadata;
  expect(await written(disposeOfDisk, vm)).toEqual(always ? { metadata: { uid }, spec } : undefined);
  const exactly = { metadata: { uid, resourceVersion, annotations: neverRan } };
  expect(await written(disposeOfNewDisk, vm)).toEqual(whereNew ? exactly : undefined);
});

test.each([
  ['spec.disk.whenDeleted', true],
  ['spec', false],
])('one of which %s is refused by now', async (field, isNoClaim) => {
  const vm = held({ config: 'c' });
  const refusal = invalidField(field, 'cannot change');
  const patch = async () => Promise.reject(refusal);
  const disposed = disposeOfDisk({ patch } as unknown as KubeClient, vm);
  await (isNoClaim ? expect(disposed).resolves.toBe(vm) : expect(disposed).rejects.toBe(refusal));
});

test.each<[what: string, before: Vm, now: Vm, said: unknown]>([
  [
    'where there is none by now',
    held({ config: 'c' }),
    held({ config: 'c', disk: { whenDeleted: 'Delete' } }, {}),
    undefined,
  ],
  ['as it was said', held({ disk: { whenDeleted: 'Retain' } }), held(own), 'Retain'],
  ['as nothing', held({}), held(own, own.disk), null],
  ['as nothing of a VM with a config that is to be placed', held({ config: 'c' }), held(gone), null],
  ['as Retain of one that was placed', held({ config: 'c' }, persistent), held(gone, persistent), 'Retain'],
  ['as Retain of one that was placed meanwhile', held({ config: 'c' }), held(gone, gone.disk), 'Retain'],
  ['not where it went before', held(gone, persistent), held(gone, persistent), undefined],
])('the disk is kept %s', async (_what, before, now, said) => {
  let body: unknown;
  const patch = async (_resource: unknown, _key: unknown, given: { body: unknown }) => {
    body = given.body;
    return now;
  };
  await keepDisks({ patch } as unknown as KubeClient, before, async () => now);
  expect(body).toEqual(
    said === undefined
      ? undefined
      : { metadata: { uid: 'vm-uid', resourceVersion: '7' }, spec: { disk: { whenDeleted: said } } },
  );
});

test('new data disks of a VM that never ran go with it, those that were there stay', async () => {
  const disks = [
    { name: 'logs', size: '5Gi' },
    { name: 'kept', claimName: 'archive' },
  ];
  const vm = held({ disks }, {});
  const { uid, resourceVersion } = vm.metadata;
  expect(await written(disposeOfNewDisk, vm)).toEqual({
    metadata: { uid, resourceVersion, annotations: neverRan },
  });
  expect(await written(disposeOfDisk, vm)).toBeUndefined();
  expect(await written(disposeOfNewDisk, held({ disks: [disks[1]!] }, {}))).toBeUndefined();
});
