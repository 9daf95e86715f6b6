import { spawn } from 'node:child_process';
import { mkdir, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Svc3Error } from '../../errors.ts';

/** A lock that is held until `release`, or until this process ends in whatever way. */
export interface Lock {
  /** With `remove` its file goes too: those who wait for it make another. */
  release(options?: { readonly remove?: boolean }): Promise<void>;
}

/** How the script ends where somebody else holds the lock and nobody wants to wait. */
const taken = 75;

/**
 * Who waited for a file that its holder removed waits again, for the one that is there now. Reading is enough: root may have
 * made it for the user. Ctrl-C reaches all processes of a terminal: who waits ends with it, who holds ends only with its owner,
 * which may have things to take away first.
 */
const script = `
while :; do
  if ! [ -e "$1" ]; then : >> "$1" || exit 1; fi
  command exec 9< "$1" || { [ -e "$1" ] && exit 1; continue; }
  flock --exclusive --conflict-exit-code ${taken} $2 9 || exit
  [ "$1" -ef /proc/self/fd/9 ] && break
done
trap '' HUP INT TERM
echo held
exec cat
`;

/**
 * Waits for the exclusive lock of `path` (made when missing). The kernel holds it through a child whose standard input is
 * ours, so that it is free the moment this process is gone: there are no stale locks.
 */
export async function acquireLock(path: string, onWait?: () => void): Promise<Lock> {
  const waiting = onWait === undefined ? undefined : setTimeout(onWait, 500);
  try {
    return await startHolder(path, '', () => cannotBeTaken(path));
  } finally {
    clearTimeout(waiting);
  }
}

/** The same without waiting; undefined where somebody else holds it. */
export async function tryLock(path: string): Promise<Lock | undefined> {
  const isTaken = new Error('taken');
  const refused = (code: number | null): Error => (code === taken ? isTaken : cannotBeTaken(path));
  return startHolder(path, '--nonblock', refused).catch((error: unknown) => {
    if (error === isTaken) return undefined;
    throw error;
  });
}

function cannotBeTaken(path: string, cause?: Error): Svc3Error {
  const advice = 'is its folder writable, and the command flock (util-linux) there?';
  return new Svc3Error('InternalError', `the lock ${path} cannot be taken: ${advice}`, { cause });
}

/** @param refused - the error for a holder that ended with this code before it held the lock */
async function startHolder(
  path: string,
  flag: '' | '--nonblock',
  refused: (code: number | null) => Error,
): Promise<Lock> {
  await mkdir(dirname(path), { recursive: true });
  const holder = spawn('sh', ['-c', script, 'sh', path, flag], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    holder.once('error', (cause) => reject(cannotBeTaken(path, cause)));
    holder.once('exit', (code) => reject(refused(code)));
    holder.stdout.once('data', () => resolve());
  });
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
