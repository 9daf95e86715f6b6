import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openVolumes } from '../../../../src/localcluster/cluster/volumes.ts';

test('a volume is opened to everybody, once', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-volumes-'));
  const watcher = openVolumes(folder);
  onTestFinished(async () => {
    watcher.close();
    await rm(folder, { recursive: true });
  });
  const make = async (name: string) => {
    const path = join(folder, name);
    await mkdir(path, { mode: 0o750 });
    await expect.poll(async () => (await stat(path)).mode & 0o777).toBe(0o777);
    return path;
  };
  const first = await make('first');
  const { ctimeMs } = await stat(first);
  // By the time that the next ones are open, a second change of the first would have been seen.
  for (const name of ['second', 'third', 'fourth']) await make(name);
  expect((await stat(first)).ctimeMs).toBe(ctimeMs);
});
