/** Whether a disk that was reported as saved really holds what its guest had written. */
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { extract } from 'tar-stream';
import { run } from '../../../src/localcluster/host/command.ts';
import { digestOf, manifestOf, type StoreFolder } from './store.ts';

/**
 * Reads the disk of a manifest from the registry's folder: every digest, `qemu-img check`, and the marker somewhere in
 * what the guest would see. Resolves with what is wrong, undefined where nothing is.
 */
export async function checkDisk(
  store: StoreFolder,
  digest: string,
  marker: string | undefined,
): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-chaos-disk-'));
  try {
    const disk = await unpack(store, digest, folder);
    await run('qemu-img', ['check', '-q', disk]);
    if (marker === undefined) return undefined;
    const raw = join(folder, 'disk.raw');
    await run('qemu-img', ['convert', '-O', 'raw', disk, raw]);
    return (await holds(raw, marker)) ? undefined : `${marker}, synced before the save, is not in it`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function unpack(store: StoreFolder, digest: string, folder: string): Promise<string> {
  const { layers } = await manifestOf(store, digest);
  const layer = layers.at(-1);
  if (layer === undefined) throw new Error('the manifest has no layer');
  const path = store.fileOf(layer.digest);
  if ((await digestOf(path)) !== layer.digest) throw new Error(`layer ${layer.digest} has another digest`);
  const disk = join(folder, 'disk.qcow2');
  const tar = extract();
  const read = pipeline(createReadStream(path), tar);
  let isFound = false;
  for await (const entry of tar)
    if (entry.header.name.startsWith('disk/') && entry.header.type === 'file') {
      isFound = true;
      await pipeline(entry, createWriteStream(disk));
    } else entry.resume();
  await read;
  if (!isFound) throw new Error('the layer has no disk');
  return disk;
}

/** Whether a file holds a text, also across the pieces it is read in. */
export async function holds(path: string, text: string): Promise<boolean> {
  let tail = Buffer.alloc(0);
  for await (const chunk of createReadStream(path, { highWaterMark: 4 * 2 ** 20 }) as AsyncIterable<Buffer>) {
    const piece = Buffer.concat([tail, chunk]);
    if (piece.includes(text)) return true;
    tail = piece.subarray(Math.max(0, piece.length - text.length));
  }
  return false;
}
