import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf, Svc3Error } from '../errors.ts';

/** How often somebody who waits looks again. */
const retryMs = 50;
/** Longer than a renewal of a login may take. */
const longestWaitMs = 60_000;
/** SQLITE_BUSY. */
const busy = 5;

/**
 * Runs `work` while no other process does so for this file, which is made where it is missing, and stays, empty. The lock is SQLite's, the
 * one that Node has on every system (local clusters are Linux and take `flock`): the kernel frees it when its process ends in whatever way.
 *
 * @throws Svc3Error Timeout where somebody else holds it for a minute, BadRequest where the file cannot be made
 */
export async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const database = await open(file);
  try {
    await begin(database, file);
    return await work();
  } finally {
    database.close();
  }
}

async function open(file: string): Promise<DatabaseSync> {
  try {
    await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
    return new DatabaseSync(file, { timeout: 0 });
  } catch (cause) {
    throw new Svc3Error('BadRequest', `cannot write ${file}: ${messageOf(cause)}`, { cause });
  }
}

async function begin(database: DatabaseSync, file: string): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += retryMs) {
    try {
      database.exec('BEGIN EXCLUSIVE');
      return;
    } catch (cause) {
      if (!isBusy(cause))
        throw new Svc3Error('BadRequest', `cannot lock ${file}: ${messageOf(cause)}`, { cause });
      if (waitedMs >= longestWaitMs)
        throw new Svc3Error('Timeout', `another svc3 has held ${file} for a minute`, { cause });
    }
    await sleep(retryMs);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && 'errcode' in error && error.errcode === busy;
}
