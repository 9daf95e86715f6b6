import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { acquireLock, tryLock, withLock } from '../../../../src/localcluster/host/lock.ts';

let dir: string;
beforeEach(() => (dir = mkdtempSync(join(tmpdir(), 'svc3-lock-'))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('only one holds a lock at a time', async () => {
  let inside = 0;
  const seen: number[] = [];
  const work = async () => {
    seen.push((inside += 1));
    await setTimeout(5);
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 5 }, () => withLock(join(dir, 'a.lock'), work)));
  expect(seen).toEqual([1, 1, 1, 1, 1]);
});

test('a lock is free again when the work under it fails', async () => {
  const path = join(dir, 'a.lock');
  await expect(withLock(path, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
  await expect(withLock(path, () => Promise.resolve('mine'))).resolves.toBe('mine');
});

test('who has to wait is told so', async () => {
  const lock = await acquireLock(join(dir, 'a.lock'));
  const onWait = vi.fn();
  const second = acquireLock(join(dir, 'a.lock'), onWait);
  await vi.waitFor(() => expect(onWait).toHaveBeenCalled(), { timeout: 8_000 });
  await lock.release();
  await (await second).release();
});

test('a lock of a process that was killed is free', async () => {
  const path = join(dir, 'a.lock');
  const module = new URL('../../../../src/localcluster/host/lock.ts', import.meta.url).href;
  const script = `
    import { acquireLock } from ${JSON.stringify(module)};
    await acquireLock(process.argv[1]);
    process.stdout.write('held');
    setInterval(() => {}, 60_000);
  `;
  const owner = spawn(process.execPath, ['--input-type=module', '--eval', script, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(owner.stdout, 'data');
  owner.kill('SIGKILL');
  await (await acquireLock(path)).release();
});

test('a lock whose file goes with it is still held by only one at a time', async () => {
  const path = join(dir, 'a.lock');
  let inside = 0;
  const seen: number[] = [];
  const work = async () => {
    seen.push((inside += 1));
    await setTimeout(5);
    inside -= 1;
  };
  await Promise.all(
    Array.from({ length: 8 }, (_, index) => withLock(path, work, undefined, { remove: index % 2 === 0 })),
  );
  expect(seen).toEqual(Array.from({ length: 8 }, () => 1));
  await withLock(path, work, undefined, { remove: true });
  expect(existsSync(path)).toBe(false);
});

test('a lock that cannot be taken says which', async () => {
  const path = join(dir, 'file');
  await withLock(path, () => Promise.resolve());
  const inFile = join(path, 'a.lock');
  await expect(acquireLock(inFile)).rejects.toThrow(/EEXIST|ENOTDIR/);
  await expect(acquireLock('/proc/a.lock')).rejects.toThrow('the lock /proc/a.lock cannot be taken');
});

/** A process with a group of its own, as a terminal gives one, that holds the lock and goes on after Ctrl-C for a while. */
async function owningGroup(path: string): Promise<ChildProcess> {
  const module = new URL('../../../../src/localcluster/host/lock.ts', import.meta.url).href;
  const script = `
    import { acquireLock } from ${JSON.stringify(module)};
    await acquireLock(process.argv[1]);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => {});
    process.stdout.write('held');
    setInterval(() => {}, 60_000);
  `;
  const owner = spawn(process.execPath, ['--input-type=module', '--eval', script, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  onTestFinished(() => void owner.kill('SIGKILL'));
  await once(owner.stdout, 'data');
  return owner;
}

test('Ctrl-C in a terminal takes no lock from who still takes things away', async () => {
  const path = join(dir, 'a.lock');
  const owner = await owningGroup(path);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(-(owner.pid ?? 0), signal);
  const next = acquireLock(path);
  const first = await Promise.race([next.then(() => 'taken'), setTimeout(500, 'held')]);
  expect(first).toBe('held');
  owner.kill('SIGKILL');
  await (await next).release();
});

test('who does not want to wait is told that somebody else holds it', async () => {
  const path = join(dir, 'a.lock');
  const lock = await tryLock(path);
  expect(lock).toBeDefined();
  expect(await tryLock(path)).toBeUndefined();
  await lock?.release();
  const again = await tryLock(path);
  expect(again).toBeDefined();
  await again?.release({ remove: true });
  expect(existsSync(path)).toBe(false);
});
