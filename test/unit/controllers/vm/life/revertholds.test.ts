import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image } from '../../../../../src/api/image.ts';
import type { Vm, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import { workId } from '../../../../../src/controllers/image/names.ts';
import { RevertHolds, type RevertHoldParts } from '../../../../../src/controllers/vm/life/revertholds.ts';
import { Svc3Error } from '../../../../../src/errors.ts';
import { anImage, condition, digest } from '../../image/builders.ts';
import { aPod, aVm, effective, runningStatus } from '../builders.ts';

const persistent = { ...effective, disk: { storage: 'Persistent' as const, size: '1Gi' } };

const aSave = (
  name: string,
  status?: Image['status'],
  { mode = 'Save', annotations = {} }: { mode?: 'Save' | 'SaveWithMemory'; annotations?: object } = {},
) => anImage({ vm: { name: 'web', mode } }, status, { name, annotations: { ...annotations } });
const withoutStore = { conditions: [condition('Stalled', 'True', 'StoreMissing')] };

let cached: Image[];
/** As kube-apiserver has them. */
let live: Image[];
const liveImages = vi.fn(async () => live);
const patch = vi.fn();
const event = vi.fn();
/** Our clock, and kube-apiserver's. */
let [now, servedAt]: string[] = [];

const parts = {
  client: { patch, request: async () => ({ status: 200, headers: { date: servedAt }, body: {} }) },
  recorder: { event },
  observer: { images: () => cached, saveWaitMs: 3_600_000 },
  liveImages,
  now: () => new Date(now ?? ''),
} as unknown as RevertHoldParts;

const asked = (spec: Partial<VmSpec> = {}, status: VmStatus = {}, generation = 2): Vm =>
  aVm({
    metadata: { ...aVm().metadata, generation },
    spec: { revertRequest: 'b', ...spec },
    status: { effective: persistent, revertRequest: 'a', ...status },
  });
const pod = aPod({ nodeName: 'n1', status: runningStatus(true) });
const holdOf = (holds: RevertHolds, vm = asked()) => holds.of({ vm, pod, effective: persistent });

/** An hour and a second later. */
function passTime(): void {
  [now, servedAt] = ['2026-11-01T11:30:01Z', 'Sun, 01 Nov 2026 11:30:01 GMT'];
}

beforeEach(() => {
  vi.clearAllMocks();
  patch.mockReset().mockResolvedValue({});
  [cached, live] = [[], []];
  [now, servedAt] = ['2026-11-01T10:30:00Z', 'Sun, 01 Nov 2026 10:30:00 GMT'];
});

describe('a revert waits', () => {
  const waits = (what: string) => ({
    message: `the revert waits until ${what} saved, at most until 2026-11-01T11:30:00Z`,
    needsGuest: false,
  });

  test('for an image that the cache shows', async () => {
    cached = [aSave('saved', { conditions: [condition('Ready', 'False', 'SourceNotReady')] })];
    expect(await holdOf(new RevertHolds(parts))).toEqual(waits('image saved is'));
    expect(liveImages).not.toHaveBeenCalled();
  });

  test('for images that only kube-apiserver knows', async () => {
    live = [aSave('two'), aSave('one')];
    expect(await holdOf(new RevertHolds(parts))).toEqual(waits('images one, two are'));
  });

  test('for one that is to have the memory of the guest, which has to run for that', async () => {
    cached = [aSave('saved'), aSave('warm', undefined, { mode: 'SaveWithMemory' })];
    expect(await holdOf(new RevertHolds(parts))).toMatchObject({ needsGuest: true });
  });

  test('until it is there', async () => {
    const holds = new RevertHolds(parts);
    cached = [aSave('saved')];
    expect(await holdOf(holds)).toBeDefined();
    [cached, live] = [[aSave('saved', { digest })], [aSave('saved', { digest })]];
    expect(await holdOf(holds)).toBeUndefined();
  });

  test('no longer by a clock that is ahead', async () => {
    const holds = new RevertHolds(parts);
    [cached, live] = [[aSave('saved')], [aSave('saved')]];
    await holdOf(holds);
    now = '2026-11-02T10:00:00Z';
    expect(await holdOf(holds)).toEqual(waits('image saved is'));
    expect(patch).not.toHaveBeenCalled();
  });

  test('for those that were asked for before it, for which kube-apiserver is asked once', async () => {
    const holds = new RevertHolds(parts);
    expect(await holdOf(holds)).toBeUndefined();
    [cached, live] = [[aSave('later')], [aSave('later')]];
    expect(await holdOf(holds)).toBeUndefined();
    expect(liveImages).toHaveBeenCalledOnce();
    // It may have been taken back, and asked for again, since.
    expect(await holdOf(holds, asked({}, {}, 4))).toEqual(waits('image later is'));
    expect(await holdOf(holds, asked({ revertRequest: 'c' }, {}, 5))).toEqual(waits('image later is'));
  });

  test('for nobody where kube-apiserver does not answer: the pass fails', async () => {
    liveImages.mockRejectedValueOnce(new Svc3Error('ServiceUnavailable', 'no answer'));
    const holds = new RevertHolds(parts);
    await expect(holdOf(holds)).rejects.toThrow('no answer');
    live = [aSave('saved')];
    expect(await holdOf(holds)).toEqual(waits('image saved is'));
  });
});

describe('nothing is looked for', () => {
  test.each<[string, Vm]>([
    ['where no revert is asked for', asked({}, { revertRequest: 'b' })],
    ['where the VM was made with it', asked({}, {})],
  ])('%s', async (what, vm) => {
    const made = what.endsWith('made with it') ? { ...vm, status: {} } : vm;
    expect(await holdOf(new RevertHolds(parts), made)).toBeUndefined();
    expect(liveImages).not.toHaveBeenCalled();
  });

  test('where the disk is as new as its pod, which was made with it', async () => {
    const runnerSpec = { 'svc3.dev/runner-spec': '{"revertRequest":"b"}' };
    const made = { ...pod, metadata: { ...pod.metadata, annotations: runnerSpec } };
    live = [aSave('saved')];
    const holds = new RevertHolds(parts);
    expect(await holds.of({ vm: asked(), pod: made, effective })).toBeUndefined();
    expect(await holds.of({ vm: asked(), pod: made, effective: persistent })).toBeDefined();
  });

  test('before there is a runner, and its time begins after that', async () => {
    live = [aSave('saved')];
    const holds = new RevertHolds(parts);
    const begins = { ...pod, status: { phase: 'Pending' as const } };
    expect(await holds.of({ vm: asked(), pod: begins, effective: persistent })).toBeUndefined();
    passTime();
    expect(await holdOf(holds)).toMatchObject({ message: expect.stringContaining('2026-11-01T12:30:01Z') });
  });
});

describe('a revert that has waited for an hour', () => {
  async function waited(images: Image[]): Promise<RevertHolds> {
    const holds = new RevertHolds(parts);
    [cached, live] = [images, images];
    await holdOf(holds);
    passTime();
    return holds;
  }

  test('has the images told before it goes on', async () => {
    const image = aSave('saved');
    const holds = await waited([image]);
    const told = { 'svc3.dev/save-abandoned': workId(image, 'create') };
    const message = 'the VM is reverted although its disk was not saved for saved';
    expect(await holdOf(holds)).toEqual({ message, needsGuest: false });
    expect(patch).toHaveBeenCalledExactlyOnceWith(
      expect.anything(),
      { name: 'saved', namespace: 'team' },
      { type: 'merge', body: { metadata: { uid: image.metadata.uid, annotations: told } } },
    );
    expect(event).toHaveBeenCalledExactlyOnceWith(expect.anything(), {
      type: 'Warning',
      reason: 'SaveAbandoned',
      message,
    });
    // It has not said yet that it knows.
    live = [aSave('saved', undefined, { annotations: told })];
    expect(await holdOf(holds)).toEqual({ message, needsGuest: false });
    expect(patch).toHaveBeenCalledOnce();
    expect(event).toHaveBeenCalledOnce();
    live = [aSave('saved', { conditions: [condition('Stalled', 'True', 'SourceDeleted')] })];
    expect(await holdOf(holds)).toBeUndefined();
  });

  test('goes on where all are there by now, though the cache does not show it', async () => {
    const holds = await waited([aSave('saved')]);
    live = [aSave('saved', { digest })];
    expect(await holdOf(holds)).toBeUndefined();
    expect(patch).not.toHaveBeenCalled();
  });

  test('goes on without one that is gone by then', async () => {
    const holds = await waited([aSave('saved')]);
    patch.mockRejectedValueOnce(new Svc3Error('NotFound', 'no image'));
    await holdOf(holds);
    live = [];
    expect(await holdOf(holds)).toBeUndefined();
  });
});

test('a revert waits for no memory of a guest that it leaves off, whose image is told at once', async () => {
  cached = [aSave('warm', undefined, { mode: 'SaveWithMemory' })];
  live = cached;
  const off = asked({ powerState: 'Stopped' }, { powerState: 'Stopped' });
  const holds = new RevertHolds(parts);
  expect(await holdOf(holds, off)).toMatchObject({
    message: 'the VM is reverted although its disk was not saved for warm',
  });
  expect(patch).toHaveBeenCalledOnce();
  // Another one has the disk first.
  cached = [...cached, aSave('saved')];
  expect(await holdOf(holds, off)).toEqual({
    message: 'the revert waits until image saved is saved, at most until 2026-11-01T11:30:00Z',
    needsGuest: false,
  });
});

test('a revert waits for no image without a store, which is told at once', async () => {
  [cached, live] = [[aSave('saved', withoutStore)], [aSave('saved', withoutStore)]];
  expect(await holdOf(new RevertHolds(parts))).toMatchObject({
    message: 'the VM is reverted although its disk was not saved for saved',
  });
  expect(patch).toHaveBeenCalledOnce();
});
