import { giveUpUploads } from '../../registry/parts.ts';
import type { Disk } from './caches.ts';
import type { Verdict } from './decide.ts';
import type { RepositoryPath } from './repositorypath.ts';
import type { NamespaceRegistries } from './registries.ts';

/** A disk whose uploads are looked at. */
export interface LookedAt {
  readonly disk: Disk;
  /** Undefined where the installation has no store. */
  readonly path: RepositoryPath | undefined;
  /** Milliseconds since 1970. */
  readonly now: number;
}

export interface AwaitedUpload extends LookedAt {
  /** What is said while nothing has come, or more may come. */
  readonly waiting: Verdict;
}

/** How often an upload is looked at in the time that it may take. */
export const looks = 24;

type UploadsFound = Awaited<ReturnType<typeof giveUpUploads>>;

/**
 * Gives uploads to a disk up that nobody went on with, and says what is to be said of the disk then. A store that does not answer or
 * does not delete is asked again later.
 */
export async function awaitUpload(
  registries: NamespaceRegistries,
  expiryMs: number,
  awaited: AwaitedUpload,
): Promise<{ verdict: Verdict; requeueAfterMs: number }> {
  const { disk, waiting } = awaited;
  const requeueAfterMs = expiryMs / looks;
  const found = await uploadsOf(registries, awaited, expiryMs).catch(() => undefined);
  const last = found?.givenUp.at(-1);
  if (last !== undefined && found?.going.length === 0) {
    const idle = `nobody went on with it for ${Math.round(expiryMs / 360_000) / 10} hours`;
    const message = `an upload stopped after ${last.offset} bytes and was given up, since ${idle}; ${waiting.message}`;
    return { verdict: { reason: 'UploadAbandoned', message }, requeueAfterMs };
  }
  const said = disk.status?.conditions?.find(({ type }) => type === 'Stalled');
  const isStill = said?.reason === 'UploadAbandoned' && (found === undefined || found.going.length === 0);
  const { reason, message } = said ?? waiting;
  return { verdict: isStill ? { reason, message } : waiting, requeueAfterMs };
}

/**
 * Gives the uploads to a disk up that nobody went on with for so long.
 *
 * @throws where the store does not answer or does not delete
 */
export async function uploadsOf(
  registries: NamespaceRegistries,
  { disk, path, now }: LookedAt,
  expiryMs: number,
): Promise<UploadsFound> {
  if (path === undefined) return { givenUp: [], going: [] };
  const client = await registries.open(disk.metadata.namespace, path.registry);
  try {
    return await giveUpUploads(client, path.repository, now - expiryMs);
  } finally {
    await client.close();
  }
}
