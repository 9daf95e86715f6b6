import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { unlessMarked } from '../../../../src/localcluster/cluster/mark.ts';

let folder: string;
let done: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'svc3-mark-'));
  done = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const bring = (build: string): Promise<boolean> =>
  unlessMarked(join(folder, 'run', 'installed'), build, async () => void done.push(build));

test('what is there is not brought again', async () => {
  expect([await bring('A'), await bring('A'), await bring('B'), await bring('B')]).toEqual([
    true,
    false,
    true,
    false,
  ]);
  expect(done).toEqual(['A', 'B']);
});

test('what was there before another that failed half way is brought again', async () => {
  await bring('A');
  const failing = unlessMarked(join(folder, 'run', 'installed'), 'B', () =>
    Promise.reject(new Error('svc3-api does not get ready')),
  );
  await expect(failing).rejects.toThrow('svc3-api does not get ready');
  expect(await bring('A')).toBe(true);
  expect(done).toEqual(['A', 'A']);
});
