import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { acquireLock, withLock } from '../../../../src/localcluster/host/lock.ts';

let dir: string;
beforeEach(() => (dir = mkdtempSync(join(tmpdir(), 'svc3-lock-'))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test('only one holds a lock at a time', async () => {
  let inside = 0;
  const seen: number[] = [];
  const work = async () => {
    seen.push((inside += 1));
    await new Promise((resolve) => setTimeout(resolve, 5));
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
    await new Promise((resolve) => setTimeout(resolve, 5));
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
