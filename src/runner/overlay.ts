import { existsSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../errors.ts';
import type { DiskFormat } from './args.ts';
import { RunnerFailure } from './failure.ts';
import { type DiskHeader, headerOf, qcow2Refusal } from './qcow2.ts';
import { makeDisk, qemuImg } from './qemuimg.ts';
import { asStorage } from './storage.ts';

export interface BaseDisk {
  readonly path: string;
  readonly format: DiskFormat;
  /** Bytes that the guest sees. */
  readonly virtualSize: number;
}

const diskName = /\.(qcow2|raw|img)$/;

/**
 * The disk of an image volume: `/disk/<file>.{qcow2,raw,img}`, exactly one. A runtime that knows no image volumes
 * mounts an empty folder without a word, so what is missing is said in a sentence.
 */
export async function findDisk(volume: string): Promise<BaseDisk> {
  const folder = join(volume, 'disk');
  const names = (await readdir(folder).catch(() => [])).filter((name) => diskName.test(name)).sort();
  const [name] = names;
  if (name === undefined)
    throw new RunnerFailure(
      'DiskMissing',
      'the image has no /disk/<file>.{qcow2,raw,img} (or the container runtime does not support image volumes: containerd 2.1 or newer is needed)',
    );
  if (names.length > 1)
    throw new RunnerFailure('ImageInvalid', `the image has more than one disk: ${names.join(', ')}`);
  return inspectDisk(join(folder, name));
}

/** The format by the name and the header together; refuses what would make QEMU open other files. */
export async function inspectDisk(path: string): Promise<BaseDisk> {
  const header = await readHeader(path, "the image's disk");
  const refuse = (why: string): never => {
    throw new RunnerFailure('ImageInvalid', `the image's disk ${why}`);
  };
  if (header.kind === 'raw') {
    if (path.endsWith('.qcow2')) return refuse('is named .qcow2 and is none');
    const { size } = await stat(path);
    if (size === 0) return refuse('is empty');
    return { path, format: 'raw', virtualSize: size };
  }
  if (path.endsWith('.raw')) return refuse('is named .raw and is a qcow2 file');
  const why = qcow2Refusal(header);
  if (why !== undefined) return refuse(why);
  return { path, format: 'qcow2', virtualSize: header.virtualSize };
}

async function readHeader(path: string, what: string): Promise<DiskHeader> {
  try {
    return await headerOf(path);
  } catch (cause) {
    throw new RunnerFailure('ImageInvalid', `${what} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** Makes the overlay unless there is one. Returns whether it is new. A half-made one never has the name. */
export async function ensureOverlay(
  path: string,
  base: BaseDisk,
  bytes: number | undefined,
): Promise<boolean> {
  if (existsSync(path)) return false;
  await createOverlay(path, base, bytes);
  return true;
}

/** A fresh overlay in place of whatever was there: the disk as the image has it. Never smaller than the image. */
export async function createOverlay(path: string, base: BaseDisk, bytes: number | undefined): Promise<void> {
  const size = Math.max(base.virtualSize, bytes ?? 0);
  const from = ['-F', base.format, '-b', base.path];
  await asStorage("the VM's disk", () =>
    makeDisk(path, (draft) => ['create', '-q', '-f', 'qcow2', ...from, draft, `${size}`]),
  );
}

/** Virtual size of the overlay in bytes, by its header. */
export async function overlaySize(path: string): Promise<number> {
  const header = await readHeader(path, "the VM's disk");
  if (header.kind === 'raw')
    throw new RunnerFailure('ImageInvalid', "the VM's overlay is damaged: it is no qcow2 file");
  return header.virtualSize;
}

/** Grows the overlay of a VM that does not run; a smaller or equal size changes nothing. */
export async function growOverlay(path: string, bytes: number): Promise<void> {
  if (bytes <= (await overlaySize(path))) return;
  await asStorage("the VM's disk", () => qemuImg(['resize', '-q', '-f', 'qcow2', path, `${bytes}`]));
}
