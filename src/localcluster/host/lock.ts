import { spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Svc3Error } from '../../errors.ts';

/** A lock that is held until `release`, or until this process ends in whatever way. */
export interface Lock {
  /** With `remove` its file goes too: those who wait for it make another. */
  release(options?: { readonly remove?: boolean }): Promise<void>;
}

/**
 * Who waited for a file that its holder removed waits again, for the one that is there now. Reading is enough: root may have
 * made it for the user.
 */
const script = `
while :; do
  if ! [ -e "$1" ]; then : >> "$1" || exit 1; fi
  command exec 9< "$1" || { [ -e "$1" ] && exit 1; continue; }
  flock --exclusive 9 || exit 1
  [ "$1" -ef /proc/self/fd/9 ] && break
done
echo held
exec cat
`;

/**
 * Waits for the exclusive lock of `path` (made when missing). The kernel holds it through a child whose standard input is
 * ours, so that it is free the moment this process is gone: there are no stale locks.
 */
export async function acquireLock(path: string, onWait?: () => void): Promise<Lock> {
  await mkdir(dirname(path), { recursive: true });
  const holder = spawn('sh', ['-c', script, 'sh', path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()));
  const waiting = onWait === undefined ? undefined : setTimeout(onWait, 500);
  try {
    await new Promise<void>((resolve, reject) => {
      const advice = 'is its folder writable, and the command flock (util-linux) there?';
      const refused = (cause?: Error): void =>
        reject(new Svc3Error('InternalError', `the lock ${path} cannot be taken: ${advice}`, { cause }));
      holder.once('error', refused);
      holder.once('exit', () => refused());
      holder.stdout.once('data', () => resolve());
    });
  } finally {
    clearTimeout(waiting);
  }
  return {
    async release({ remove = false } = {}) {
      if (remove) await rm(path, { force: true });
      holder.stdin.end();
      await ended;
    },
  };
}

/** Runs `work` while holding the lock of `path`. */
export async function withLock<T>(
  path: string,
  work: () => Promise<T>,
  onWait?: () => void,
  options: { readonly remove?: boolean } = {},
): Promise<T> {
  const lock = await acquireLock(path, onWait);
  try {
    return await work();
  } finally {
    await lock.release(options);
  }
}
