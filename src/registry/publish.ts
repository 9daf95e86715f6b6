import type { RegistryClient } from './client.ts';

/** The tag under which the newest version of an image is found. */
export const newest = 'latest';

/** Makes a manifest of the repository its newest version. Versions before it stay, under their own tags. */
export async function publish(
  client: RegistryClient,
  repository: string,
  digest: string,
  signal?: AbortSignal,
): Promise<void> {
  const abortable = signal === undefined ? {} : { signal };
  const { bytes, mediaType } = await client.manifest(repository, digest, abortable);
  await client.putManifest(repository, newest, bytes, mediaType, abortable);
}

/**
 * Deletes every version of an image; its blobs go when the registry collects its garbage.
 *
 * @param known digests that may have lost their tags.
 */
export async function deleteVersions(
  client: RegistryClient,
  repository: string,
  known: readonly string[],
  signal?: AbortSignal,
): Promise<void> {
  const abortable = signal === undefined ? {} : { signal };
  const tags = await client.tags(repository, abortable);
  const tagged = await Promise.all(tags.map((tag) => client.digestOf(repository, tag, abortable)));
  const digests = new Set([...known, ...tagged.filter((digest) => digest !== undefined)]);
  for (const digest of digests) await client.deleteManifest(repository, digest, abortable);
}
