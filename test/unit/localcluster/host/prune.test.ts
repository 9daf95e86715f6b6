import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import {
  forgetBuilds,
  markUsed,
  outdatedBuilds,
  pruneFolders,
} from '../../../../src/localcluster/host/prune.ts';

let cache: string;
beforeEach(() => (cache = mkdtempSync(join(tmpdir(), 'svc3-prune-'))));
afterEach(() => rmSync(cache, { recursive: true, force: true }));

const hour = 3_600_000;
const builds = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((tag) => `localhost/svc3/svc3:${tag}`);

describe('builds of an image', () => {
  test('that nobody has noted yet are kept for now', async () => {
    expect(await outdatedBuilds(cache, builds)).toEqual([]);
  });

  test('go when five others were used later and nobody used them for an hour', async () => {
    const start = Date.now();
    for (const [index, build] of builds.entries()) {
      await markUsed(cache, build);
      const at = new Date(start - index * hour);
      utimesSync(join(cache, 'images/used', build.replaceAll('/', '_')), at, at);
    }
    const [, , , , , sixth = '', seventh = ''] = builds;
    expect(await outdatedBuilds(cache, builds, start)).toEqual([sixth, seventh]);
    await markUsed(cache, seventh);
    expect(await outdatedBuilds(cache, builds, start)).toEqual(['localhost/svc3/svc3:e', sixth]);
    await forgetBuilds(cache, builds);
    expect(readdirSync(join(cache, 'images/used'))).toEqual([]);
  });

  test('that were all used within the hour stay', async () => {
    for (const build of builds) await markUsed(cache, build);
    expect(await outdatedBuilds(cache, builds)).toEqual([]);
  });
});

test('guests that nobody used for a week go, and so does what killed builds left', async () => {
  const dead = 4_194_305;
  const old = new Date(Date.now() - 8 * 24 * hour);
  const folders = [
    'guests/current',
    'guests/recent',
    'guests/old',
    'guests/old-debian',
    `guests/abc.${dead}`,
    `guests/abc.${process.pid}`,
    `images/bundles.${dead}`,
    `images/context.${dead}.svc3`,
    `images/base.${dead}.tar`,
    `images/bundles.${process.pid}`,
    'images/storage',
  ];
  for (const folder of folders) mkdirSync(join(cache, folder), { recursive: true });
  for (const name of ['current', 'old', 'old-debian']) utimesSync(join(cache, 'guests', name), old, old);
  await pruneFolders(cache, 'current');
  expect(folders.filter((folder) => existsSync(join(cache, folder)))).toEqual([
    'guests/current',
    'guests/recent',
    `guests/abc.${process.pid}`,
    `images/bundles.${process.pid}`,
    'images/storage',
  ]);
  await pruneFolders(cache, 'recent', Date.now() + hour);
  expect(existsSync(join(cache, 'guests/current'))).toBe(true);
});
