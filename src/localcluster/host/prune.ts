/** What earlier builds left in the cache, and when it goes. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Builds that are kept of each image, however old. */
const keptBuilds = 5;
/** A build that somebody used so lately is kept: it may still be on its way into a registry. In milliseconds. */
const recentMs = 60 * 60 * 1000;
/** A guest that nobody used for so long goes. In milliseconds. */
const guestMs = 7 * 24 * 60 * 60 * 1000;

/** Notes that a build of this cache is used now. */
export async function markUsed(cache: string, build: string): Promise<void> {
  const file = stampOf(cache, build);
  await mkdir(join(cache, 'images', 'used'), { recursive: true });
  await writeFile(file, '');
}

function stampOf(cache: string, build: string): string {
  return join(cache, 'images', 'used', build.replaceAll('/', '_'));
}

/**
 * Of these builds of one image those to be removed: all but the five that were used last, and those of the last hour. One
 * that nobody has noted yet counts as used now.
 */
export async function outdatedBuilds(
  cache: string,
  builds: readonly string[],
  now = Date.now(),
): Promise<string[]> {
  const used = await Promise.all(
    builds.map(async (build) => {
      const stamp = await stat(stampOf(cache, build)).catch(() => undefined);
      if (stamp === undefined) await markUsed(cache, build);
      return { build, at: stamp?.mtimeMs ?? now };
    }),
  );
  return used
    .toSorted((a, b) => b.at - a.at)
    .slice(keptBuilds)
    .filter(({ at }) => now - at > recentMs)
    .map(({ build }) => build);
}

/** Forgets when these builds were used. */
export async function forgetBuilds(cache: string, builds: readonly string[]): Promise<void> {
  for (const build of builds) await rm(stampOf(cache, build), { force: true });
}

/** Removes guests that were not used for a week, except `current`, and what builds that were killed left. */
export async function pruneFolders(cache: string, current: string, now = Date.now()): Promise<void> {
  const guests = join(cache, 'guests');
  await utimes(join(guests, current), new Date(now), new Date(now)).catch(() => undefined);
  for (const name of await names(guests)) {
    const { mtimeMs = now } = (await stat(join(guests, name)).catch(() => undefined)) ?? {};
    const isOld = name !== current && !name.endsWith('.lock') && now - mtimeMs > guestMs;
    if (isOld || isAbandoned(name)) await rm(join(guests, name), { recursive: true, force: true });
  }
  const images = join(cache, 'images');
  for (const name of await names(images))
    if (isAbandoned(name)) await rm(join(images, name), { recursive: true, force: true });
}

/** Work in progress carries the number of its process. */
function isAbandoned(name: string): boolean {
  const pid = /^(?:[\w-]+\.(\d+)|(?:bundles|context|base)\.(\d+)\.\w+)$/.exec(name);
  const number = pid?.[1] ?? pid?.[2];
  return number !== undefined && !existsSync(`/proc/${number}`);
}

async function names(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}
