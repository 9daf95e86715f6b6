import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ownTmp } from '../../../../src/localcluster/shared/sandbox.ts';

const state = '/home/me/.local/state/svc3/one';

test('a sandbox has a /tmp of its own, on which its volumes hang', async () => {
  expect(await ownTmp(state, ['/home/me/.cache/svc3', '/tmporary/checkout'])).toBe(`${state}/run/tmp`);
});

test.each([
  ['state', '/tmp/clone/state', []],
  ['cache', state, ['/tmp/clone/cache', '/home/me/checkout']],
  ['checkout', state, ['/home/me/.cache/svc3', '/tmp']],
])("one whose %s lies below the host's sees that", async (_, where, others) => {
  expect(await ownTmp(where, others)).toBeUndefined();
});

test('wherever the way there leads over', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-tmp-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await mkdir(join(folder, 'tmp', 'cache'), { recursive: true });
  await symlink(join(folder, 'tmp', 'cache'), join(folder, 'cache'));
  const inTmp = (path: string) => ownTmp(state, [path], join(folder, 'tmp'));
  expect(await inTmp(join(folder, 'cache'))).toBeUndefined();
  expect(await inTmp(join(folder, 'cache', 'not', 'there', 'yet'))).toBeUndefined();
  expect(await inTmp(folder)).toBeDefined();
});
