import { execFile } from 'node:child_process';
import { chmod, rm } from 'node:fs/promises';
import { fileMode, putInPlace } from './storage.ts';

/** Runs qemu-img without a shell; throws with its last words, or the signal's reason where that has ended it. */
export function qemuImg(
  args: readonly string[],
  options: { timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const settings = {
      timeout: options.timeoutMs ?? 60_000,
      maxBuffer: 4 * 1024 * 1024,
      ...(options.signal === undefined ? {} : { signal: options.signal }),
    };
    execFile('qemu-img', [...args], settings, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else if (options.signal?.aborted === true) reject(options.signal.reason as Error);
      else reject(new Error(stderr.trim().split('\n').at(-1) || error.message, { cause: error }));
    });
  });
}

/**
 * Makes a disk of the VM, in place of whatever was there. A half-made one never has the name.
 *
 * @param argsOf - what qemu-img makes it with at a path
 */
export async function makeDisk(path: string, argsOf: (path: string) => readonly string[]): Promise<void> {
  const draft = `${path}.new`;
  await rm(draft, { force: true });
  await qemuImg(argsOf(draft));
  // qemu-img lets the group of a file read it at most.
  await chmod(draft, fileMode);
  await putInPlace(draft, path);
}
