import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createOverlay, findDisk, inspectDisk, overlaySize } from '../../../src/runner/overlay.ts';

let volume: string;

beforeEach(async () => {
  volume = await mkdtemp(join(tmpdir(), 'svc3-overlay-'));
  await mkdir(join(volume, 'disk'));
});
afterEach(() => rm(volume, { recursive: true }));

/** The header of a qcow2 file of 1 GiB, as QEMU's docs/interop/qcow2 has it. */
function header(
  given: { version?: number; backing?: bigint; encryption?: number; incompatible?: bigint } = {},
) {
  const { version = 3, backing = 0n, encryption = 0, incompatible = 0n } = given;
  const bytes = Buffer.alloc(512);
  bytes.write('QFI\xfb', 'latin1');
  bytes.writeUInt32BE(version, 4);
  bytes.writeBigUInt64BE(backing, 8);
  bytes.writeUInt32BE(backing === 0n ? 0 : 5, 16);
  bytes.writeUInt32BE(16, 20);
  bytes.writeBigUInt64BE(1n << 30n, 24);
  bytes.writeUInt32BE(encryption, 32);
  bytes.writeBigUInt64BE(incompatible, 72);
  bytes.writeUInt32BE(104, 100);
  return bytes;
}

const file = async (name: string, content: Buffer | string) => {
  await writeFile(join(volume, 'disk', name), content);
  return join(volume, 'disk', name);
};
const invalid = (message: string) => ({ reason: 'ImageInvalid', message: expect.stringContaining(message) });

describe('the disk of an image volume', () => {
  test('is the one file of it that is a disk', async () => {
    await file('README', 'x');
    const path = await file('disk.qcow2', header());
    expect(await findDisk(volume)).toEqual({ path, format: 'qcow2', virtualSize: 2 ** 30 });
  });

  test.each(['disk.raw', 'disk.img'])('may be raw: %s', async (name) => {
    const path = await file(name, Buffer.alloc(4096));
    expect(await findDisk(volume)).toEqual({ path, format: 'raw', virtualSize: 4096 });
  });

  test('may be qcow2 under the name .img', async () => {
    await file('disk.img', header({ version: 2 }));
    expect(await findDisk(volume)).toMatchObject({ format: 'qcow2' });
  });

  test('is missed in words, also where the runtime has mounted nothing', async () => {
    await expect(findDisk(volume)).rejects.toMatchObject({
      reason: 'DiskMissing',
      message: expect.stringContaining('containerd 2.1'),
    });
    await expect(findDisk(join(volume, 'none'))).rejects.toMatchObject({ reason: 'DiskMissing' });
  });

  test('is refused where there are two', async () => {
    await file('b.raw', 'x');
    await file('a.qcow2', header());
    await expect(findDisk(volume)).rejects.toMatchObject(invalid('more than one disk: a.qcow2, b.raw'));
  });

  test.each<[string, string, Buffer | string, string]>([
    ['that is called qcow2 and is none', 'disk.qcow2', 'plain', 'is named .qcow2 and is none'],
    ['that is called raw and is qcow2', 'disk.raw', header(), 'is named .raw and is a qcow2 file'],
    ['that is empty', 'disk.raw', '', 'is empty'],
    ['of another version', 'disk.qcow2', header({ version: 4 }), 'unknown qcow2 version 4'],
    ['with a backing file', 'disk.qcow2', header({ backing: 512n }), 'needs a backing file'],
    ['with a data file', 'disk.qcow2', header({ incompatible: 4n }), 'external file'],
    ['that is encrypted', 'disk.qcow2', header({ encryption: 2 }), 'is encrypted'],
  ])('is refused: one %s', async (_what, name, content, message) => {
    await expect(inspectDisk(await file(name, content))).rejects.toMatchObject(invalid(message));
  });

  test('is refused where it cannot be read', async () => {
    await expect(inspectDisk(join(volume, 'disk'))).rejects.toMatchObject(invalid('cannot be read'));
  });
});

describe('an overlay', () => {
  test('is made whole, for the group of the runner as for its user, whatever a runner that was killed has left', async () => {
    const base = await inspectDisk(await file('disk.raw', Buffer.alloc(4096)));
    const path = join(volume, 'overlay');
    await writeFile(`${path}.new`, 'half', { mode: 0o600 });
    await createOverlay(path, base, 2 ** 20);
    expect(await overlaySize(path)).toBe(2 ** 20);
    expect((await stat(path)).mode & 0o777).toBe(0o660);
    expect(await readdir(volume)).toEqual(['disk', 'overlay']);
  });

  test('that cannot be made is told as what it is', async () => {
    const base = await inspectDisk(await file('disk.raw', Buffer.alloc(4096)));
    const made = createOverlay(join(volume, 'nowhere', 'overlay'), base, undefined);
    await expect(made).rejects.toMatchObject({
      reason: 'StartFailed',
      message: expect.stringMatching(/^the VM's disk cannot be written: /) as string,
    });
  });
});

describe('the size of an overlay', () => {
  test('is that of its header', async () => {
    expect(await overlaySize(await file('overlay', header()))).toBe(2 ** 30);
  });

  test('is not guessed where it is damaged', async () => {
    const damaged = await file('overlay', Buffer.alloc(4096));
    await expect(overlaySize(damaged)).rejects.toMatchObject(invalid('is damaged'));
    const gone = overlaySize(join(volume, 'gone.qcow2'));
    await expect(gone).rejects.toThrow(/^the VM's disk cannot be read: ENOENT/);
  });
});
