import { execFile } from 'node:child_process';

/** Runs qemu-img without a shell; throws with its last words. */
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
      else reject(new Error(stderr.trim().split('\n').at(-1) || error.message, { cause: error }));
    });
  });
}
