import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface SmallVolume {
  readonly path: string;
  resize(bytes: number): Promise<void>;
  remove(): Promise<void>;
}

/** A file system of its own that is soon full. */
export async function smallVolume(bytes: number): Promise<SmallVolume> {
  const path = await mkdtemp(join(tmpdir(), 'svc3-volume-'));
  await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'svc3-test', path]);
  return {
    path,
    async resize(size) {
      await run('mount', ['-o', `remount,size=${size}`, path]);
    },
    async remove() {
      await run('umount', ['-l', path]);
      await rm(path, { recursive: true, force: true });
    },
  };
}
