import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image } from '../../../../../src/api/image.ts';
import type { Pod } from '../../../../../src/api/core.ts';
import type { Vm, VmStatus } from '../../../../../src/api/vm.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import {
  type DeletionParts,
  endGuest,
  type Leaving,
  letGo,
  stillWanted,
} from '../../../../../src/controllers/vm/life/deletion.ts';
import { aPod, aVm, effective } from '../builders.ts';

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

/** An hour after the deletion. */
const endsAt = Date.parse('2026-11-01T12:00:00Z');
const given = { hasFinalizer: true, hasPod: false, unsaved: [], endsAt };

const aSave = {
  metadata: { name: 'saved', namespace: 'team', creationTimestamp: '2026-11-01T10:30:00Z' },
  spec: { source: { vm: { name: 'web', mode: 'Save' } } },
} as Image;

let there: Pod | undefined;
let images: Image[];
/** Our clock, and kube-apiserver's. */
let [now, servedAt]: string[] = [];
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
    request: async () => ({ status: 200, headers: { date: servedAt }, body: vm }),
    patch,
    delete: remove,
  },
  now: () => new Date(now ?? ''),
  recorder: { event },
  expectations: { isDeleted: () => false, deletedPod, vms },
  liveImages: async () => images,
} as unknown as DeletionParts;

beforeEach(() => {
  there = undefined;
  images = [];
  [now, servedAt] = ['2026-11-01T11:30:00Z', 'Sun, 01 Nov 2026 11:30:00 GMT'];
  vi.clearAllMocks();
});

describe('a VM that is being deleted and whose pod the cache does not show', () => {
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
    there = aPod({ metadata: { ownerReferences: [], labels: {} } });
    expect(await letGo(parts, vm, given)).toBe(true);
  });

  test('is held where its pod has lost its owner, as with --cascade=orphan', async () => {
    there = aPod({ metadata: { ownerReferences: [] } });
    expect(await letGo(parts, vm, given)).toBe(false);
    expect(patch).not.toHaveBeenCalled();
  });

  test.each([
    ['that sleeps', { powerState: 'Suspended' as const, suspendedTo: 'Disk' as const }],
    ['that was drained', { powerState: 'Running' as const, podName: 'svc3-vm-web' }],
  ])('one %s says for whom nothing was saved', async (_what, status) => {
    const one = aVm({ metadata: vm.metadata, status: { effective, ...status } });
    expect(await letGo(parts, one, { ...given, unsaved: ['saved'] })).toBe(true);
    expect(event.mock.calls.map((call) => call[1])).toEqual([
      expect.objectContaining({
        reason: 'SaveAbandoned',
        message: 'the VM is deleted although its disk was not saved for saved',
      }),
    ]);
  });

  test('is written nothing of without our finalizer', async () => {
    expect(await letGo(parts, vm, { ...given, hasFinalizer: false })).toBe(true);
    expect(patch).not.toHaveBeenCalled();
  });
});

describe('the guest of a VM that is being deleted', () => {
  const pod = aPod();
  const plan = { kind: 'end', pod, settings: undefined, endsAt } as const;

  test('ends', async () => {
    expect(await stillWanted(parts, vm, plan)).toBeUndefined();
    await endGuest(parts, plan);
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
      leftMs: 1_800_000,
    });
  });

  test('goes on where our clock is ahead, for as long as kube-apiserver’s says', async () => {
    images = [aSave];
    [now, servedAt] = ['2026-11-01T12:10:00Z', 'Sun, 01 Nov 2026 11:10:00 GMT'];
    expect(await stillWanted(parts, vm, plan)).toMatchObject({ kind: 'hold', leftMs: 3_000_000 });
  });

  test.each<[string, Partial<typeof plan>]>([
    ['the time to wait is over by both clocks', {}],
    ['nobody is to wait', { endsAt: undefined as never }],
  ])('ends all the same where %s', async (_what, more) => {
    images = [aSave];
    [now, servedAt] = ['2026-11-01T12:00:00Z', 'Sun, 01 Nov 2026 12:00:00 GMT'];
    expect(await stillWanted(parts, vm, { ...plan, ...more })).toBeUndefined();
  });
});

/** The parts where kube-apiserver has the claim of the VM, and no pod. */
function withClaim(): DeletionParts {
  const claim = {
    metadata: { name: 'svc3-vm-web', namespace: 'team', annotations: { 'svc3.dev/vm-uid': 'vm-uid' } },
  };
  const get = async ({ plural }: { plural: string }) => {
    if (plural === 'persistentvolumeclaims') return claim;
    throw new Svc3Error('NotFound', 'no pod');
  };
  return { ...parts, client: { ...parts.client, get } } as unknown as DeletionParts;
}

const told = () => event.mock.calls.map(([, { reason }]) => reason);

describe('the Persistent disk of a VM that goes without a pod, and is to go with it,', () => {
  const disk = { storage: 'Persistent' as const, size: '1Gi', whenDeleted: 'Delete' as const };
  const status = { effective: { ...effective, disk }, powerState: 'Running' as const };
  const one = aVm({ metadata: vm.metadata, spec: { disk }, status });
  const neverRan = aVm({
    metadata: { ...vm.metadata, annotations: { 'svc3.dev/never-ran': 'true' } },
    spec: { disk },
    status: { effective: status.effective },
  });

  test('stays where it is still to be saved, and both is told', async () => {
    expect(await letGo(withClaim(), one, { ...given, unsaved: ['saved'] })).toBe(true);
    expect(remove).not.toHaveBeenCalled();
    expect(told()).toEqual(['SaveAbandoned', 'DiskKept']);
  });

  test('stays also where only kube-apiserver knows of the Image', async () => {
    images = [aSave];
    expect(await letGo(withClaim(), one, given)).toBe(true);
    expect(remove).not.toHaveBeenCalled();
    expect(told()).toEqual(['SaveAbandoned', 'DiskKept']);
  });

  test('stays also where our clock alone says that the time to save it is over', async () => {
    images = [aSave];
    [now, servedAt] = ['2026-11-01T12:10:00Z', 'Sun, 01 Nov 2026 11:10:00 GMT'];
    expect(await letGo(withClaim(), one, { ...given, unsaved: ['saved'] })).toBe(true);
    expect(remove).not.toHaveBeenCalled();
    expect(told()).toEqual(['SaveAbandoned', 'DiskKept']);
  });

  test('goes where that is so by kube-apiserver’s clock as well', async () => {
    images = [aSave];
    [now, servedAt] = ['2026-11-01T12:10:00Z', 'Sun, 01 Nov 2026 12:00:00 GMT'];
    expect(await letGo(withClaim(), one, given)).toBe(true);
    expect(remove).toHaveBeenCalledOnce();
    expect(told()).toEqual(['SaveAbandoned']);
  });

  test.each<[what: string, which: Vm, seen: Partial<Leaving>, events: string[]]>([
    ['nobody waits for it', one, {}, []],
    ['nobody is to wait for it', one, { unsaved: ['saved'], endsAt: undefined }, ['SaveAbandoned']],
    ['nothing has ever run on it', neverRan, { unsaved: ['saved'] }, ['SaveAbandoned']],
  ])('goes where %s', async (_what, which, seen, events) => {
    expect(await letGo(withClaim(), which, { ...given, ...seen })).toBe(true);
    expect(remove.mock.calls.map((call: unknown[]) => call[1])).toEqual([
      { name: 'svc3-vm-web', namespace: 'team' },
    ]);
    expect(told()).toEqual(events);
  });

  test('is said to be lost only once it may be deleted', async () => {
    remove.mockRejectedValueOnce(new Svc3Error('Forbidden', 'a policy denies it'));
    const seen = { ...given, unsaved: ['saved'], endsAt: undefined };
    await expect(letGo(withClaim(), one, seen)).rejects.toThrow('a policy denies it');
    expect(told()).toEqual([]);
    expect(await letGo(withClaim(), one, seen)).toBe(true);
    expect(told()).toEqual(['SaveAbandoned']);
  });
});

const onClaim = { ...effective, disk: { storage: 'Persistent' as const, size: '1Gi' } };
const memoryHost = { accelerator: 'tcg' } as const;
const evicted: VmStatus = {
  effective: { ...onClaim, onEviction: 'Suspend' },
  powerState: 'Stopped',
  memoryHost,
};
const runner = { podUid: 'pod-uid' };
const cut = ' as after a power cut, since the VM was suspended on its disk and its memory is of no other VM';
const maybe =
  ', which may be as after a power cut: its guest may have been suspended when its pod ended, and that memory is of no other VM';

test.each<[string, VmStatus, string]>([
  ['was suspended on it', { effective: onClaim, powerState: 'Suspended', suspendedTo: 'Disk' }, cut],
  ['was suspended in its pod', { effective: onClaim, powerState: 'Suspended', suspendedTo: 'Memory' }, ''],
  ['has lost its pod, the end of which suspends', evicted, maybe],
  ['has a pod, in which the guest was shut down before', { ...evicted, powerState: 'Running', runner }, ''],
  ['was off when its pod ended', { effective: evicted.effective!, powerState: 'Stopped' }, ''],
  ['has lost its pod, the end of which shuts down', { ...evicted, effective: onClaim }, ''],
])('a disk that stays is told of, and in which state where the VM %s', async (_what, status, asLeft) => {
  const gone = aVm({ metadata: vm.metadata, spec: { disk: { storage: 'Persistent', size: '1Gi' } }, status });
  expect(await letGo(withClaim(), gone, given)).toBe(true);
  const kept = event.mock.calls.find(([, { reason }]) => reason === 'DiskKept')?.[1].message;
  expect(kept).toBe(
    `claim svc3-vm-web keeps the disk of the VM${asLeft}; a new VM with disk.claimName svc3-vm-web and image ${onClaim.image} goes on with it`,
  );
});
