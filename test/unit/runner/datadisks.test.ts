import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { prepareDataDisks } from '../../../src/runner/datadisks.ts';

const Mi = 2 ** 20;

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-data-disks-'));
  await mkdir(join(folder, 'logs'));
  path = join(folder, 'logs', 'disk.img');
});
afterEach(() => rm(folder, { recursive: true }));

const made = (bytes: number) => prepareDataDisks([{ name: 'logs', format: 'raw', bytes }], folder);
const claimed = (format: 'raw' | 'qcow2') => prepareDataDisks([{ name: 'logs', format }], folder);

/** The first bytes of a qcow2 file. */
function header({ backing = 0, dataFile = false, encrypted = 0 } = {}): Buffer {
  const bytes = Buffer.alloc(112);
  bytes.writeUInt32BE(0x514649fb, 0);
  bytes.writeUInt32BE(3, 4);
  bytes.writeBigUInt64BE(BigInt(backing), 8);
  bytes.writeBigUInt64BE(BigInt(Mi), 24);
  bytes.writeUInt32BE(encrypted, 32);
  bytes.writeBigUInt64BE(dataFile ? 4n : 0n, 72);
  return bytes;
}

describe('a new disk', () => {
  test('is made blank, in whole MiB, and takes no room yet', async () => {
    expect(await made(3 * Mi - 5)).toEqual([{ name: 'logs', path, format: 'raw' }]);
    expect(await stat(path)).toMatchObject({ size: 3 * Mi, blocks: 0 });
  });

  test('that is there keeps what is on it and grows, but never shrinks', async () => {
    await made(Mi);
    await writeFile(path, 'kept', { flag: 'r+' });
    await made(2 * Mi);
    await made(Mi);
    expect((await stat(path)).size).toBe(2 * Mi);
    expect((await readFile(path)).subarray(0, 5).toString()).toBe('kept\0');
  });

  test('is for the group as for its owner, also one that was made for its owner alone', async () => {
    const mode = async () => (await stat(path)).mode & 0o777;
    await made(Mi);
    expect(await mode()).toBe(0o660);
    await chmod(path, 0o600);
    await made(Mi);
    expect(await mode()).toBe(0o660);
  });

  test('is not made where a link leads', async () => {
    const elsewhere = join(folder, 'elsewhere');
    await symlink(elsewhere, path);
    await expect(made(Mi)).rejects.toMatchObject({ reason: 'StartFailed' });
    await expect(stat(elsewhere)).rejects.toThrow('ENOENT');
  });

  test('of a claim that is not mounted is told by its name', async () => {
    const disk = { name: 'other', format: 'raw' as const, bytes: Mi };
    await expect(prepareDataDisks([disk], folder)).rejects.toThrow('disk other cannot be written: ENOENT');
  });
});

describe('the disk of a claim that was there', () => {
  test('is its file as it is, in the stated format', async () => {
    await writeFile(path, header());
    await truncate(path, Mi);
    expect(await claimed('qcow2')).toEqual([{ name: 'logs', path, format: 'qcow2' }]);
    // What the bytes look like is no matter: raw was said.
    expect(await claimed('raw')).toEqual([{ name: 'logs', path, format: 'raw' }]);
    expect((await stat(path)).size).toBe(Mi);
  });

  test('has to be there', async () => {
    await expect(claimed('raw')).rejects.toMatchObject({
      reason: 'DiskMissing',
      message: 'the claim of disk logs has no file disk.img',
    });
  });

  test.each<[what: string, bytes: Buffer | string, message: string]>([
    ['no qcow2', 'text', 'is no QCOW2 file'],
    ['an empty file', '', 'is no QCOW2 file'],
    ['a backing file', header({ backing: 256 }), 'needs a backing file'],
    ['an external data file', header({ dataFile: true }), 'keeps its data in an external file'],
    ['encryption', header({ encrypted: 1 }), 'is encrypted'],
  ])('is refused with %s where QCOW2 was said', async (_, bytes, message) => {
    await writeFile(path, bytes);
    await expect(claimed('qcow2')).rejects.toMatchObject({
      reason: 'ImageInvalid',
      message: expect.stringContaining(`disk.img in the claim of disk logs ${message}`),
    });
  });

  test.each(['raw', 'qcow2'] as const)(
    'is refused where it is a link to something of the pod: %s',
    async (format) => {
      const secret = join(folder, 'secret');
      await writeFile(secret, header());
      await symlink(secret, path);
      await expect(claimed(format)).rejects.toMatchObject({
        reason: 'ImageInvalid',
        message: 'disk.img in the claim of disk logs is no plain file',
      });
    },
  );
});
