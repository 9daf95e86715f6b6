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

  describe('and that has disks', () => {
    const spec = { disk: { storage: 'Persistent' as const }, disks: [{ name: 'data', size: '1Gi' }] };
    const metadata = { ...aVm().metadata, finalizers: ['svc3.dev/cleanup'] };
    const annotations = { 'svc3.dev/never-ran': 'true' };
    const vm = aVm({ spec, metadata });
    const marked = aVm({ spec, metadata: { ...metadata, resourceVersion: '5', annotations } });
    const dispose = vi.fn();
    const caller = { delete: remove, patch: dispose } as never;
    const get = vi.fn();
    const writer = { patch, get } as never;
    const undone = {
      metadata: { uid: 'vm-uid', resourceVersion: '5', annotations: { 'svc3.dev/never-ran': null } },
    };
    const expiring = { metadata: { uid: 'vm-uid' }, spec: { startDeadlineSeconds: 1 } };
    const written = (): unknown[] => patch.mock.calls.map((call) => call[2]?.body as unknown);

    beforeEach(() => {
      dispose.mockReset().mockResolvedValue(marked);
      get.mockReset().mockResolvedValue(marked);
    });

    test('takes them along', async () => {
      await removeNeverRun(vm, { caller, writer });
      const { uid, resourceVersion } = metadata;
      expect(dispose.mock.calls[0]?.[2]).toEqual({
        type: 'merge',
        body: { metadata: { uid, resourceVersion, annotations } },
      });
      expect(remove.mock.calls[0]?.[2]).toEqual({ uid: 'vm-uid', resourceVersion: '5' });
      expect(patch).not.toHaveBeenCalled();
    });

    test('keeps them where it is not deleted: it may have run by then, and be deleted one day', async () => {
      remove.mockRejectedValue(refused('Conflict'));
      await removeNeverRun(vm, { caller, writer });
      expect(written()).toEqual([undone, expiring]);
      patch.mockClear();
      remove.mockRejectedValue(refused('Timeout'));
      await expect(removeNeverRun(vm, { caller, writer })).rejects.toMatchObject({ reason: 'Timeout' });
      expect(written()).toEqual([undone]);
    });

    test('keeps them where nobody knows whether that they are to go was written', async () => {
      dispose.mockRejectedValue(refused('Timeout'));
      await expect(removeNeverRun(vm, { caller, writer })).rejects.toMatchObject({ reason: 'Timeout' });
      expect(written()).toEqual([undone]);
      expect(remove).not.toHaveBeenCalled();
    });

    test('is left to the operator also where that cannot be taken back: what ran keeps its disks all the same', async () => {
      remove.mockRejectedValue(refused('Conflict'));
      get.mockRejectedValue(refused('Timeout'));
      await removeNeverRun(vm, { caller, writer });
      expect(written()).toEqual([expiring]);
    });
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
