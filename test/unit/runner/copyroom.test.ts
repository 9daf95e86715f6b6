import { mkdtemp, rm, statfs, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { evictionReason, keptFreeBytes, shortage } from '../../../src/runner/copyroom.ts';

const Mi = 2 ** 20;
const Gi = 2 ** 30;

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-copyroom-'));
  onTestFinished(() => rm(folder, { recursive: true }));
});

describe('a pod that is limited', () => {
  test('runs short when the files of its volume come to its limit, though no guest runs and its node has room', async () => {
    await writeFile(join(folder, 'disk.qcow2'), Buffer.alloc(39 * Mi, 1));
    const { signal } = new AbortController();
    const storage = { folder, ephemeralStorageBytes: 40 * Mi, podLimitBytes: 40 * Mi };
    expect(await shortage(storage, { hasGuest: () => false, signal })).toBe(
      "the VM's storage has no room for the copy: the kubelet evicts the pod when it has more than 40 MiB of ephemeral storage",
    );
  });

  test('has only what the files take, not what their sizes say', async () => {
    // By its node alone, which keeps nothing free.
    const { blocks, bsize } = await statfs(folder);
    const bytes = blocks * bsize;
    await writeFile(join(folder, 'disk.qcow2'), '');
    await truncate(join(folder, 'disk.qcow2'), bytes);
    const watch = twoLooks();
    const storage = { folder, ephemeralStorageBytes: bytes, podLimitBytes: bytes };
    expect(await shortage(storage, watch)).toBeUndefined();
    expect(watch.looks()).toBe(2);
  });
});

describe('a pod that nobody has said to be limited', () => {
  test('may have more than what its node can allocate: the kubelet evicts nobody for that', async () => {
    await writeFile(join(folder, 'disk.qcow2'), Buffer.alloc(41 * Mi, 1));
    const reason = await shortage({ folder, ephemeralStorageBytes: 40 * Mi }, twoLooks());
    // What is free here says something else, if anything.
    expect(reason ?? '').not.toContain('evicts the pod');
  });
});

/** A watch that ends with its second look, as without a guest. */
function twoLooks() {
  const ends = new AbortController();
  let looks = 0;
  const hasGuest = () => {
    looks += 1;
    if (looks === 2) ends.abort();
    return false;
  };
  return { hasGuest, signal: ends.signal, looks: () => looks };
}

describe('what the kubelet keeps free of a file system of 100 GiB, evicting pods,', () => {
  test.each([
    ['nothing, where the node can allocate all of it', 50, 100, 0],
    ['nothing, where that is rounded up', 50, 100.001, 0],
    ['what the node cannot allocate', 50, 95, 5],
    ['what it cannot allocate, though less is free already', 4, 95, 5],
    ['what it cannot allocate by the default', 50, 90, 10],
    // At 15 % free it takes unused images away first, wherever they lie.
    ['no more than that, where little more is free', 16, 90, 10],
    ['its default, where the node sets much aside', 50, 60, 10],
    ['its default, where the pod has a small limit of its own', 50, 1, 10],
    ['its default, where the pod has a limit that is more than all', 50, 400, 10],
    ['nothing that is known, where its default is not in force: less was free before', 9, 60, 0],
  ])('is %s', (_what, free, said, kept) => {
    expect(keptFreeBytes({ size: 100 * Gi, free: free * Gi }, said * Gi) / Gi).toBeCloseTo(kept, 6);
  });

  test('is what it cannot allocate, where that comes to a byte less than a tenth', () => {
    const size = 101_142_863_872;
    const missing = Math.floor(size / 10);
    expect(keptFreeBytes({ size, free: size }, size - missing)).toBe(missing);
  });
});

describe('a copy goes on, or is given up with the reason,', () => {
  const rules = { podLimitBytes: 40 * Gi, keptFree: 10 * Gi };
  const disk = (free: number) => ({ size: 100 * Gi, free });
  const free =
    "the VM's storage has no room for the copy: the kubelet may evict pods when less than 10240 MiB of the node's storage are free";
  const limit =
    "the VM's storage has no room for the copy: the kubelet evicts the pod when it has more than 40960 MiB of ephemeral storage";

  test.each([
    ['while there is room', disk(12 * Gi), 30 * Gi, rules, undefined],
    ['while the least is left', disk(10 * Gi + 256 * Mi), 40 * Gi - 256 * Mi, rules, undefined],
    ['once the node has little left', disk(10 * Gi + 256 * Mi - 1), 30 * Gi, rules, free],
    ['once the pod has little left', disk(50 * Gi), 40 * Gi - 256 * Mi + 1, rules, limit],
    ['of a pod that has no limit', disk(40 * Gi), 60 * Gi, { keptFree: 10 * Gi }, undefined],
    ['of a full node that evicts nobody', disk(0), 30 * Gi, { ...rules, keptFree: 0 }, undefined],
    ['where nobody says what is free', undefined, 30 * Gi, rules, undefined],
    ['where nobody says what is free, at the limit', undefined, 40 * Gi, rules, limit],
    [
      'while a twentieth of a small limit is left',
      disk(50 * Gi),
      95 * Mi,
      { ...rules, podLimitBytes: 100 * Mi },
      undefined,
    ],
  ])('%s', (_when, system, occupied, given, reason) => {
    expect(evictionReason({ disk: system, occupied }, given)).toBe(reason);
  });
});
