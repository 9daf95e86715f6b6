/** The registry's folder, read without asking the registry: its repositories, manifests and blobs. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { StoreSight } from './history.ts';

export interface StoreFolder {
  /** Manifests of all repositories. */
  repositories(): Promise<StoreSight['repositories']>;
  /** Digests of all blobs, whoever needs them. */
  blobs(): Promise<Set<string>>;
  fileOf(digest: string): string;
}

/** @param state - folder of the local cluster's state */
export function storeFolder(state: string): StoreFolder {
  const root = join(state, 'registry/data/docker/registry/v2');
  return {
    async repositories() {
      const found = new Map<string, ReadonlySet<string>>();
      for (const repository of await repositoriesBelow(join(root, 'repositories'), '')) {
        const revisions = join(root, 'repositories', repository, '_manifests/revisions/sha256');
        const digests = (await namesIn(revisions)).map((hex) => `sha256:${hex}`);
        const linked = await Promise.all(digests.map((digest) => isLinked(revisions, digest)));
        found.set(repository, new Set(digests.filter((_, index) => linked[index])));
      }
      return found;
    },
    async blobs() {
      const folder = join(root, 'blobs/sha256');
      const pages = await Promise.all(
        (await namesIn(folder)).map(async (page) => namesIn(join(folder, page))),
      );
      return new Set(pages.flat().map((hex) => `sha256:${hex}`));
    },
    fileOf: (digest) => {
      const hex = digest.replace('sha256:', '');
      return join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data');
    },
  };
}

/** A manifest that was deleted leaves its folder without the link. */
async function isLinked(revisions: string, digest: string): Promise<boolean> {
  return (await namesIn(join(revisions, digest.slice('sha256:'.length)))).includes('link');
}

async function repositoriesBelow(root: string, path: string): Promise<string[]> {
  const names = await namesIn(join(root, path));
  const own = names.includes('_manifests') ? [path] : [];
  const below = names.filter((name) => !name.startsWith('_'));
  const deeper = await Promise.all(below.map(async (name) => repositoriesBelow(root, join(path, name))));
  return [...own, ...deeper.flat()];
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/** sha256 of a file's bytes, as digests are written. */
export async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return `sha256:${hash.digest('hex')}`;
}

interface Manifest {
  readonly layers: readonly { readonly digest: string; readonly mediaType: string }[];
}

/** @throws where the blob is not there, or not what its digest says */
export async function manifestOf(store: StoreFolder, digest: string): Promise<Manifest> {
  const path = store.fileOf(digest);
  if ((await digestOf(path)) !== digest) throw new Error(`the blob of ${digest} has another digest`);
  return JSON.parse(await readFile(path, 'utf8')) as Manifest;
}
