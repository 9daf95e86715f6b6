import { describe, expect, test, vi } from 'vitest';
import type { ObjectMeta } from '../../../src/api/object.ts';
import type { Vm, VmSpecInput } from '../../../src/api/vm.ts';
import { Svc3Error } from '../../../src/errors.ts';
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
  uid: meant,
}: {
  readonly disk?: Disk;
  readonly frozen?: Disk | undefined;
  readonly wait?: boolean;
  readonly deleteDisk?: boolean;
  readonly uid?: string;
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
  const goesOn = await deleteVm(environment, key, { wait, deleteDisk, uid: meant, warn });
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

test('a VM that is meant by its UID is deleted by that, and another one of its name is left alone', async () => {
  const { calls, uid } = await deletion({ uid: aVm().metadata.uid });
  expect(calls).toEqual([{ delete: { uid } }]);
  for (const deleteDisk of [false, true])
    await expect(
      deletion({ uid: 'before', deleteDisk, disk: { storage: 'Persistent' } }),
    ).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'VM web is another one: its UID is vm-uid and not before',
    });
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
      { delete: { uid, dryRun: true } },
      { metadata: { uid }, spec: { disk: { whenDeleted: 'Delete' } } },
      { delete: { uid } },
    ]);
    expect(warnings).toEqual([]);
  },
);

describe('a deletion with the disk', () => {
  const refusal = new Svc3Error('Forbidden', 'a policy refuses it');
  const away = new Svc3Error('BadGateway', 'away');
  const { metadata } = aVm();

  /** The VM that such a deletion leaves, where the tries and the writes end so; `meanwhile` happens during the deletion itself. */
  async function failing({
    tried,
    deleted,
    written = [],
    meanwhile,
    spec = { disk: { storage: 'Persistent' } },
  }: {
    readonly tried?: Error;
    readonly deleted?: Error;
    readonly written?: (Error | undefined)[];
    readonly meanwhile?: (vm: Vm) => Vm | undefined;
    readonly spec?: Partial<Vm['spec']>;
  }) {
    let vm: Vm | undefined = aVm({
      spec,
      status: { effective: { ...effective, disk: { storage: 'Persistent' } } },
    });
    let version = 1;
    const fail = (error: Error | undefined) => {
      if (error !== undefined) throw error;
    };
    const find = async () => {
      if (vm === undefined) throw new Svc3Error('NotFound', 'gone');
      return { ...vm, metadata: { ...vm.metadata, resourceVersion: String(version) } };
    };
    const caller = {
      async patch(
        _resource: unknown,
        _key: unknown,
        { body }: { body: { metadata: ObjectMeta; spec: Vm['spec'] } },
      ) {
        fail(written.shift());
        const { resourceVersion = String(version) } = body.metadata;
        if (resourceVersion !== String(version)) throw new Svc3Error('Conflict', 'changed');
        version += 1;
        const disk = Object.entries({ ...vm?.spec.disk, ...body.spec.disk }).filter(
          ([, value]) => value !== null,
        );
        vm = { ...vm!, spec: { ...vm!.spec, disk: Object.fromEntries(disk) } };
        return vm;
      },
      async delete(_resource: unknown, _key: unknown, { dryRun }: { dryRun?: boolean }) {
        if (dryRun === true) return fail(tried);
        vm = meanwhile === undefined ? vm : meanwhile(vm!);
        fail(deleted);
      },
    } as unknown as KubeClient;
    const environment = { caller, find, wait: (async () => ({ kind: 'gone' })) as Waiter };
    const options = { wait: true, deleteDisk: true, warn: () => undefined };
    const error = await deleteVm(environment, metadata, options).catch((thrown: unknown) => thrown);
    return { error, disk: vm?.spec.disk };
  }

  test('that is refused leaves the VM as it is: it is tried first', async () => {
    expect(await failing({ tried: refusal })).toEqual({ error: refusal, disk: { storage: 'Persistent' } });
  });

  test.each<[former: Vm['spec']['disk'], left: object]>([
    [{ storage: 'Persistent' }, { storage: 'Persistent' }],
    [
      { storage: 'Persistent', whenDeleted: 'Retain' },
      { storage: 'Persistent', whenDeleted: 'Retain' },
    ],
    [undefined, {}],
  ])('that fails all the same sets back what the VM said before: %j', async (former, left) => {
    const spec = former === undefined ? {} : { disk: former };
    expect(await failing({ deleted: refusal, spec })).toEqual({ error: refusal, disk: left });
    const changed = new Svc3Error('Conflict', 'changed');
    const written = [undefined, changed, changed];
    expect(await failing({ deleted: away, written, spec })).toEqual({ error: away, disk: left });
  });

  test('that may have begun is not undone where it has', async () => {
    const deletionTimestamp = '2026-11-01T10:00:00Z';
    const begun = (vm: Vm): Vm => ({ ...vm, metadata: { ...vm.metadata, deletionTimestamp } });
    const { error, disk } = await failing({ deleted: away, meanwhile: begun });
    expect([error, disk]).toEqual([away, { storage: 'Persistent', whenDeleted: 'Delete' }]);
    expect(await failing({ deleted: away, meanwhile: () => undefined })).toEqual({ error: away });
  });

  test('that was made of another VM meanwhile leaves that one alone', async () => {
    const other = (vm: Vm): Vm => ({ ...vm, metadata: { ...vm.metadata, uid: 'another' } });
    const { error, disk } = await failing({ deleted: refusal, meanwhile: other });
    expect([error, disk?.whenDeleted]).toEqual([refusal, 'Delete']);
  });

  test('that fails as its disk was being told of sets that back, too', async () => {
    expect(await failing({ written: [away] })).toEqual({ error: away, disk: { storage: 'Persistent' } });
  });

  test('says where the former word could not be set back', async () => {
    const { error, disk } = await failing({ deleted: refusal, written: [undefined, away] });
    expect(disk?.whenDeleted).toBe('Delete');
    expect(error).toMatchObject({
      reason: 'Forbidden',
      message:
        'a policy refuses it; disk.whenDeleted of VM web could not be set back (away): where it is Delete, the disk goes when the VM is deleted',
    });
  });
});
