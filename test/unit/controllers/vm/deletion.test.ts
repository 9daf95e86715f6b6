import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image } from '../../../../src/api/image.ts';
import type { Pod } from '../../../../src/api/core.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import {
  type DeletionParts,
  endGuest,
  letGo,
  stillWanted,
} from '../../../../src/controllers/vm/life/deletion.ts';
import { aPod, aVm, effective } from './builders.ts';

const deletionTimestamp = '2026-11-01T11:00:00Z';
const vm = aVm({
  metadata: {
    name: 'web',
    namespace: 'team',
    uid: 'vm-uid',
    deletionTimestamp,
    finalizers: ['svc3.dev/cleanup', 'other/one'],
  },
});

let there: Pod | undefined;
let images: Image[];
const patch = vi.fn(async () => vm);
const remove = vi.fn(async () => undefined);
const event = vi.fn();
const deletedPod = vi.fn();
const vms = { wrote: vi.fn(), deleted: vi.fn() };

const parts = {
  client: {
    async get() {
      if (there === undefined) throw new Svc3Error('NotFound', 'no pod');
      return there;
    },
    patch,
    delete: remove,
  },
  recorder: { event },
  expectations: { isDeleted: () => false, deletedPod, vms },
  liveImages: async () => images,
} as unknown as DeletionParts;

beforeEach(() => {
  there = undefined;
  images = [];
  vi.clearAllMocks();
});

describe('a VM that is being deleted and whose pod the cache does not show', () => {
  const given = { hasFinalizer: true, hasPod: false, unsaved: [] };

  test('is let go where kube-apiserver has none either, and what others hold stays', async () => {
    expect(await letGo(parts, vm, given)).toBe(true);
    expect(patch).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      { name: 'web', namespace: 'team' },
      { type: 'merge', body: { metadata: expect.objectContaining({ finalizers: ['other/one'] }) } },
    );
  });

  test('is held where kube-apiserver has one: its guest ends first', async () => {
    there = aPod();
    expect(await letGo(parts, vm, given)).toBe(false);
    expect(patch).not.toHaveBeenCalled();
  });

  test("is let go where what is there is not the VM's", async () => {
    there = aPod({ metadata: { ownerReferences: [] } });
    expect(await letGo(parts, vm, given)).toBe(true);
  });

  test.each([
    ['that sleeps says for whom nothing was saved', {}, true],
    ['says nothing where that was told with the end of its pod', { podName: 'svc3-vm-web' }, false],
    ['that is to be resumed says nothing', { suspendedTo: undefined }, false],
  ] as const)('one %s', async (_what, more, isTold) => {
    const sleeper = {
      ...vm,
      spec: { ...vm.spec, powerState: 'Suspended' as const },
      status: { effective, powerState: 'Suspended' as const, suspendedTo: 'Disk' as const, ...more },
    };
    expect(await letGo(parts, sleeper as typeof vm, { ...given, unsaved: ['saved'] })).toBe(true);
    const told = expect.objectContaining({
      reason: 'SaveAbandoned',
      message: 'the VM is deleted although its disk was not saved for saved',
    });
    expect(event.mock.calls.map((call) => call[1])).toEqual(isTold ? [told] : []);
  });

  test('is written nothing of without our finalizer', async () => {
    expect(await letGo(parts, vm, { ...given, hasFinalizer: false })).toBe(true);
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('the guest of a VM that is being deleted', () => {
  const pod = aPod();
  const plan = { kind: 'end', pod, settings: undefined, abandoned: [], endsAt: 1_793_534_400_000 } as const;
  const aSave = {
    metadata: { name: 'saved', namespace: 'team', creationTimestamp: '2026-11-01T10:30:00Z' },
    spec: { source: { vm: { name: 'web', mode: 'Save' } } },
  } as Image;

  test('ends', async () => {
    expect(await stillWanted(parts, vm, plan)).toBeUndefined();
    await endGuest(parts, vm, plan);
    expect(remove).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      { name: 'svc3-vm-web', namespace: 'team' },
      { uid: 'pod-uid' },
    );
    expect(deletedPod).toHaveBeenCalledExactlyOnceWith(pod);
  });

  test('goes on where kube-apiserver knows of an Image that the cache does not show', async () => {
    images = [aSave];
    expect(await stillWanted(parts, vm, plan)).toMatchObject({
      kind: 'hold',
      message: expect.stringContaining('it waits until image saved is saved'),
    });
  });

  test('ends all the same when the time to wait is over, and an event says for whom nothing was saved', async () => {
    images = [aSave];
    const over = { ...plan, endsAt: undefined, abandoned: ['saved'] };
    expect(await stillWanted(parts, vm, over)).toBeUndefined();
    await endGuest(parts, vm, over);
    expect(remove).toHaveBeenCalled();
    expect(event).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      expect.objectContaining({ reason: 'SaveAbandoned', message: expect.stringMatching(/for saved$/) }),
    );
  });
});

test.each([
  ['was suspended on it', 'Disk' as const, true],
  ['was suspended in its pod', 'Memory' as const, false],
])('a disk that stays is told of, and in which state where the VM %s', async (_what, suspendedTo, isCut) => {
  const claim = {
    metadata: { name: 'svc3-vm-web', namespace: 'team', annotations: { 'svc3.dev/vm-uid': 'vm-uid' } },
  };
  const get = async ({ plural }: { plural: string }) => {
    if (plural === 'persistentvolumeclaims') return claim;
    throw new Svc3Error('NotFound', 'no pod');
  };
  const disk = { storage: 'Persistent' as const, size: '1Gi' };
  const gone = aVm({
    metadata: vm.metadata,
    spec: { disk },
    status: { effective: { ...effective, disk }, powerState: 'Suspended', suspendedTo },
  });
  const client = { ...parts.client, get } as unknown as DeletionParts['client'];
  expect(await letGo({ ...parts, client }, gone, { hasFinalizer: true, hasPod: false, unsaved: [] })).toBe(
    true,
  );
  const told = event.mock.calls.find(([, { reason }]) => reason === 'DiskKept')?.[1].message;
  expect(told.includes('as after a power cut')).toBe(isCut);
});
