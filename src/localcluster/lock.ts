import { spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Svc3Error } from '../errors.ts';

/** A lock that is held until `release`, or until this process ends in whatever way. */
export interface Lock {
  release(): Promise<void>;
}

/**
 * Waits for the exclusive lock of `path` (made when missing, never removed). The kernel holds it through a child whose
 * standard input is ours, so that it is free the moment this process is gone: there are no stale locks.
 */
export async function acquireLock(path: string, onWait?: () => void): Promise<Lock> {
  await mkdir(dirname(path), { recursive: true });
  const holder = spawn('flock', ['--exclusive', path, 'sh', '-c', 'echo held; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => holder.once('close', () => resolve()));
  const waiting = onWait === undefined ? undefined : setTimeout(onWait, 500);
  try {
    await new Promise<void>((resolve, reject) => {
      holder.once('error', (cause) =>
        reject(new Svc3Error('InternalError', 'the command flock is missing: install util-linux', { cause })),
      );
      holder.once('exit', () => reject(new Svc3Error('InternalError', `the lock ${path} cannot be taken`)));
      holder.stdout.once('data', () => resolve());
    });
  } finally {
    clearTimeout(waiting);
  }
  return {
    async release() {
      holder.stdin.end();
      await ended;
    },
  };
}

/** Runs `work` while holding the lock of `path`. */
export async function withLock<T>(path: string, work: () => Promise<T>, onWait?: () => void): Promise<T> {
  const lock = await acquireLock(path, onWait);
  try {
    return await work();
  } finally {
    await lock.release();
  }
}
