import { beforeEach, describe, expect, test, vi } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { removeNeverRun } from '../../../src/usecases/removal.ts';
import { aVm } from '../controllers/vm/builders.ts';

const remove = vi.fn();
const patch = vi.fn();
const refused = (reason: ErrorReason) => new Svc3Error(reason, reason);
const removal = {
  caller: { delete: remove } as never,
  writer: { patch } as never,
};

beforeEach(() => {
  remove.mockReset().mockResolvedValue(undefined);
  patch.mockReset().mockResolvedValue(undefined);
});

describe('a VM that will never run', () => {
  test('is deleted by whoever deployed it, as it was seen', async () => {
    await removeNeverRun(aVm(), removal);
    expect(remove.mock.calls).toEqual([
      [expect.anything(), { name: 'web', namespace: 'team' }, { uid: 'vm-uid', resourceVersion: '4' }],
    ]);
    expect(patch).not.toHaveBeenCalled();
  });

  test('stays where it has run', async () => {
    await removeNeverRun(aVm({ status: { powerState: 'Stopped' } }), removal);
    expect([remove.mock.calls, patch.mock.calls]).toEqual([[], []]);
  });

  test.each<ErrorReason>(['Conflict', 'Forbidden', 'Unauthorized'])(
    'is left to the operator, which makes sure that it has not run, where it cannot be deleted (%s)',
    async (reason) => {
      remove.mockRejectedValue(refused(reason));
      await removeNeverRun(aVm(), removal);
      const body = { metadata: { uid: 'vm-uid' }, spec: { startDeadlineSeconds: 1 } };
      expect(patch.mock.calls[0]?.slice(1)).toEqual([
        { name: 'web', namespace: 'team' },
        { type: 'merge', body },
      ]);
    },
  );

  test('keeps its disks where it is not deleted, and what was changed meanwhile: it may have run by then, and be deleted one day', async () => {
    const spec = { disk: { storage: 'Persistent' as const }, disks: [{ name: 'data', size: '1Gi' }] };
    const vm = aVm({ spec, metadata: { ...aVm().metadata, finalizers: ['svc3.dev/cleanup'] } });
    const dispose = vi.fn(async () => ({ ...vm, metadata: { ...vm.metadata, resourceVersion: '5' } }));
    const caller = { delete: remove, patch: dispose } as never;
    // Somebody has added a disk after the others were to go.
    const whenDeleted = 'Delete' as const;
    const added = { name: 'added', size: '2Gi', whenDeleted };
    const changed = {
      disk: { ...spec.disk, whenDeleted },
      disks: [{ name: 'data', size: '1Gi', whenDeleted }, added],
    };
    const now = {
      ...vm,
      spec: { ...vm.spec, ...changed },
      metadata: { ...vm.metadata, resourceVersion: '6' },
    };
    const writer = { patch, get: async () => now } as never;
    const metadata = { uid: 'vm-uid', resourceVersion: '6' };
    const undone = { disk: { whenDeleted: null }, disks: [{ name: 'data', size: '1Gi' }, added] };
    const written = (): unknown[] => patch.mock.calls.map((call) => call[2]?.body as unknown);
    remove.mockRejectedValue(refused('Conflict'));
    await removeNeverRun(vm, { caller, writer });
    expect(remove.mock.calls[0]?.[2]).toEqual({ uid: 'vm-uid', resourceVersion: '5' });
    expect(written()).toEqual([
      { metadata, spec: undone },
      { metadata: { uid: 'vm-uid' }, spec: { startDeadlineSeconds: 1 } },
    ]);
    patch.mockClear();
    remove.mockRejectedValue(refused('Timeout'));
    await expect(removeNeverRun(vm, { caller, writer })).rejects.toMatchObject({ reason: 'Timeout' });
    expect(written()).toEqual([{ metadata, spec: undone }]);
  });

  test('that is gone, or another of its name, is none to remove', async () => {
    remove.mockRejectedValue(refused('NotFound'));
    await removeNeverRun(aVm(), removal);
    expect(patch).not.toHaveBeenCalled();
    remove.mockRejectedValue(refused('Conflict'));
    for (const reason of ['NotFound', 'Conflict'] as const) {
      patch.mockRejectedValueOnce(refused(reason));
      await removeNeverRun(aVm(), removal);
    }
  });

  test('is not forgotten where kube-apiserver does not answer', async () => {
    remove.mockRejectedValue(refused('Timeout'));
    await expect(removeNeverRun(aVm(), removal)).rejects.toMatchObject({ reason: 'Timeout' });
    remove.mockRejectedValue(refused('Conflict'));
    patch.mockRejectedValue(refused('Timeout'));
    await expect(removeNeverRun(aVm(), removal)).rejects.toMatchObject({ reason: 'Timeout' });
  });
});
