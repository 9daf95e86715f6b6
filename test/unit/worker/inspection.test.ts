import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blankQcow2 } from '../../../src/controllers/image/blankdisk.ts';
import { inspect, type InspectionOptions } from '../../../src/worker/inspection.ts';
import type { QemuImgOptions } from '../../../src/worker/qemuimg.ts';

/*
 * What is decided without qemu-img and around it. What qemu-img itself finds, and that it keeps to its limits:
 * test/integration/worker/inspection.test.ts.
 */

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-inspection-'));
});
afterAll(() => rm(folder, { recursive: true }));

const { signal } = new AbortController();
const clusterSize = 65_536;

interface Run {
  readonly args: readonly string[];
  readonly options: QemuImgOptions;
}

/** Looks at a file of these bytes; qemu-img says what it is told to. */
async function looked(content: Buffer, more: Partial<InspectionOptions> = {}, says: object = {}, code = 0) {
  const path = join(folder, 'disk');
  await writeFile(path, content);
  const runs: Run[] = [];
  const tool: InspectionOptions['tool'] = (args, options) => {
    runs.push({ args, options });
    return Promise.resolve({ code, output: JSON.stringify(says) });
  };
  const given = { kind: 'Image', maxVirtualSize: 2 ** 40, signal, tool, ...more } as const;
  return { path, runs, found: await inspect(path, given) };
}

describe('a raw disk', () => {
  test.each([
    [512, 512],
    [513, 1024],
    [1, 512],
  ])('of %i bytes is one of %i for its guest: of whole sectors', async (bytes, virtualSize) => {
    const { found, runs } = await looked(Buffer.alloc(bytes, 1));
    expect(found).toEqual({ format: 'raw', virtualSize });
    expect(runs).toEqual([]);
  });

  test('may be as large as is allowed, and no larger', async () => {
    const content = Buffer.alloc(1024, 1);
    expect((await looked(content, { maxVirtualSize: 1024 })).found.virtualSize).toBe(1024);
    await expect(looked(content, { maxVirtualSize: 1023 })).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'the disk has 1024 bytes, the largest that is taken has 1023',
    });
  });
});

test('a medium is as large as its file, whatever disks may have', async () => {
  const medium = Buffer.alloc(40_000);
  medium.write('CD001', 32_769);
  const { found, runs } = await looked(medium, { kind: 'ISO', maxVirtualSize: 1 });
  expect(found).toEqual({ format: 'iso', virtualSize: 40_000 });
  expect(runs).toEqual([]);
});

describe('a qcow2 disk', () => {
  const disk = blankQcow2(2 ** 30);

  test('is as large as its header says, and is checked as what it is: nobody guesses its format', async () => {
    const { found, runs, path } = await looked(disk);
    expect(found).toEqual({ format: 'qcow2', virtualSize: 2 ** 30 });
    expect(runs).toHaveLength(1);
    const [{ args, options }] = runs as [Run];
    expect(args).toEqual(['check', '-f', 'qcow2', '--output=json', path]);
    expect(options.signal).toBe(signal);
    expect(options).not.toHaveProperty('limits');
  });

  test('is checked within the limits that are given', async () => {
    const toolLimits = { memoryBytes: 1, cpuSeconds: 2, timeMs: 3 };
    const { runs } = await looked(disk, { toolLimits });
    expect(runs[0]?.options.limits).toEqual(toolLimits);
  });

  test('that is damaged or leaks is an answer of qemu-img, what else it ends with is none', async () => {
    const { runs } = await looked(disk);
    expect(runs[0]?.options.accept).toEqual([0, 2, 3]);
    await expect(looked(disk, {}, { leaks: 7 }, 3)).resolves.toBeDefined();
    await expect(looked(disk, {}, { corruptions: 7 }, 2)).rejects.toThrow('damaged in 7 places');
  });

  test('may end within its last cluster, and no sooner', async () => {
    const end = (bytes: number) => looked(disk, {}, { 'image-end-offset': bytes });
    await expect(end(disk.length + clusterSize - 1)).resolves.toBeDefined();
    await expect(end(disk.length + clusterSize)).rejects.toThrow('it is cut off');
  });

  test('with a harmful header is not given to qemu-img at all', async () => {
    const backed = Buffer.from(disk);
    backed.writeBigUInt64BE(512n, 8);
    const tool = () => expect.unreachable();
    await expect(looked(backed, { tool })).rejects.toThrow('has a backing file');
    await expect(looked(disk, { tool, maxVirtualSize: 2 ** 30 - 1 })).rejects.toThrow('the largest that');
  });

  test('is judged by the length of its file', async () => {
    const path = join(folder, 'cut');
    await writeFile(path, disk);
    await truncate(path, disk.length - clusterSize);
    const tool = () => expect.unreachable();
    await expect(inspect(path, { kind: 'Image', maxVirtualSize: 2 ** 40, signal, tool })).rejects.toThrow(
      'it is cut off',
    );
  });
});
