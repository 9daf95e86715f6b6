import { constants } from 'node:fs';
import { lstat, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunnerSpec } from '../api/runner.ts';
import type { MachineInput } from './args.ts';
import { roundDiskSize } from './disksize.ts';
import { RunnerFailure } from './failure.ts';
import { headerOf, qcow2Refusal } from './qcow2.ts';
import { asStorage, fileMode } from './storage.ts';

/** As other systems call it that keep disks of VMs in claims. */
const fileName = 'disk.img';

/**
 * The files of the data disks, for QEMU. A new disk is made, and grown to what is asked for, never made smaller; one of a claim that was there
 * has to be a file of the stated format that names no other file.
 *
 * @throws RunnerFailure DiskMissing, ImageInvalid, StorageFull or StartFailed, with the name of the disk
 */
export async function prepareDataDisks(
  disks: RunnerSpec['disks'],
  folder: string,
): Promise<NonNullable<MachineInput['disks']>> {
  const prepared = [];
  for (const { name, format, bytes } of disks) {
    const path = join(folder, name, fileName);
    if (bytes !== undefined) await asStorage(`disk ${name}`, () => makeOrGrow(path, roundDiskSize(bytes)));
    await checkFile(name, path, format);
    prepared.push({ name, path, format });
  }
  return prepared;
}

async function makeOrGrow(path: string, bytes: number): Promise<void> {
  // What somebody put there in place of the disk is not followed.
  const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, fileMode);
  try {
    // One that a runner of before has made; another user's stays as it is.
    await file.chmod(fileMode).catch(() => undefined);
    const { size } = await file.stat();
    if (size < bytes) await file.truncate(bytes);
  } finally {
    await file.close();
  }
}

/** A link or a device could be anything of the pod, and a qcow2 file may name other files: the guest must not read them. */
async function checkFile(name: string, path: string, format: 'raw' | 'qcow2'): Promise<void> {
  const stats = await lstat(path).catch(() => undefined);
  if (stats === undefined)
    throw new RunnerFailure('DiskMissing', `the claim of disk ${name} has no file ${fileName}`);
  const refuse = (why: string): never => {
    throw new RunnerFailure('ImageInvalid', `${fileName} in the claim of disk ${name} ${why}`);
  };
  if (!stats.isFile()) return refuse('is no plain file');
  if (format === 'raw') return;
  const header = await headerOf(path);
  if (header.kind !== 'qcow2') return refuse('is no QCOW2 file');
  const why = qcow2Refusal(header);
  if (why !== undefined) refuse(why);
}
