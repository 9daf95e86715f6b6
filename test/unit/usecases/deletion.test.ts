import { expect, test, vi } from 'vitest';
import type { VmSpecInput } from '../../../src/api/vm.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { deleteVm } from '../../../src/usecases/deletion.ts';
import type { Waiter } from '../../../src/usecases/waiter.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

type Disk = NonNullable<VmSpecInput['disk']>;

/** A deletion of a VM with this disk; `calls` are the writes in their order. */
async function deletion({
  disk,
  frozen = disk,
  wait = true,
  deleteDisk = false,
}: {
  readonly disk?: Disk;
  readonly frozen?: Disk | undefined;
  readonly wait?: boolean;
  readonly deleteDisk?: boolean;
}) {
  const vm = aVm({
    spec: disk === undefined ? {} : { disk },
    status: { effective: { ...effective, ...(frozen === undefined ? {} : { disk: frozen }) } },
  });
  const calls: unknown[] = [];
  const caller = {
    patch: async (_resource: unknown, _key: unknown, { body }: { body: unknown }) => {
      calls.push(body);
      return vm;
    },
    delete: async (_resource: unknown, _key: unknown, preconditions: unknown) => {
      calls.push({ delete: preconditions });
    },
  } as unknown as KubeClient;
  const gone: Waiter = async () => ({ kind: 'gone' });
  const warn = vi.fn();
  const key = { name: vm.metadata.name, namespace: vm.metadata.namespace };
  const environment = { caller, find: async () => vm, wait: gone };
  const goesOn = await deleteVm(environment, key, { wait, deleteDisk, warn });
  return { goesOn, calls, warnings: warn.mock.calls.flat(), uid: vm.metadata.uid };
}

test.each([
  [true, undefined],
  [false, 'deletion of VM web has begun'],
])('a Persistent disk that stays is told of, whether one waits (%s) or not', async (wait, message) => {
  const { calls, warnings, goesOn } = await deletion({ disk: { storage: 'Persistent' }, wait });
  expect(calls).toEqual([{ delete: undefined }]);
  expect(warnings).toEqual([
    'the disk of VM web stays in PersistentVolumeClaim svc3-vm-web until that is deleted',
  ]);
  expect(goesOn).toBe(message);
});

test('a disk that the VM named is told of by that name, and so is one that the VMConfig asked for', async () => {
  const named = await deletion({ disk: { storage: 'Persistent', claimName: 'data' } });
  expect(named.warnings).toEqual([expect.stringContaining('PersistentVolumeClaim data ')]);
  const inherited = await deletion({ frozen: { storage: 'Persistent' } });
  expect(inherited.warnings).toHaveLength(1);
});

test.each<[what: string, disk: Disk | undefined]>([
  ['that is Ephemeral', undefined],
  ['that goes anyhow', { storage: 'Persistent', whenDeleted: 'Delete' }],
])('of a disk %s nothing is said, and nothing is written', async (_what, disk) => {
  for (const deleteDisk of [false, true]) {
    const { calls, warnings } = await deletion({ ...(disk === undefined ? {} : { disk }), deleteDisk });
    expect(warnings).toEqual([]);
    expect(calls).toEqual([{ delete: deleteDisk ? { uid: expect.any(String) } : undefined }]);
  }
});

test.each([true, false])(
  'with deleteDisk the VM is told so before it goes, and only this VM (wait: %s)',
  async (wait) => {
    const { calls, warnings, uid } = await deletion({
      disk: { storage: 'Persistent' },
      deleteDisk: true,
      wait,
    });
    expect(calls).toEqual([
      { metadata: { uid }, spec: { disk: { whenDeleted: 'Delete' } } },
      { delete: { uid } },
    ]);
    expect(warnings).toEqual([]);
  },
);
