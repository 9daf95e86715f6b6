import type { Svc3Error } from '../errors.ts';
import type { RegistryClient } from './client.ts';
import { isDeletionRefused } from './deletion.ts';
import { digestsUnder } from './parts.ts';
import { whereNothingIsMissing } from './transport.ts';

/** The tag under which the newest version of an image is found. */
const newest = 'latest';

/** Makes a manifest that the repository has taken its newest version. Versions before it stay, under their own tags. */
export async function publish(
  client: RegistryClient,
  repository: string,
  digest: string,
  signal?: AbortSignal,
): Promise<void> {
  const abortable = signal === undefined ? {} : { signal };
  const taken = client.manifest(repository, digest, abortable);
  const { bytes, mediaType } = await whereNothingIsMissing(taken, 'the registry has lost what it had taken');
  await client.putManifest(repository, newest, bytes, mediaType, abortable);
}

/**
 * Deletes every version of an image, and every upload to it; its blobs go when the registry collects its garbage. The known one goes last: while it is there, so is what tells
 * that the others are of this image. One that the registry refuses to delete (`isDeletionRefused`) keeps none of the others.
 *
 * @param known - digest of its newest version, which may have lost its tags; undefined where it has none
 * @returns false where nothing is deleted: the repository has versions, and not that one, so that they are of another image of the name
 * @throws the first refusal, when the others have gone
 */
export async function deleteVersions(
  client: RegistryClient,
  repository: string,
  known: string | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const abortable = signal === undefined ? {} : { signal };
  const tags = await client.tags(repository, abortable);
  const tagged = await Promise.all(tags.map((tag) => digestsUnder(client, { repository, tag }, signal)));
  const others = new Set(tagged.flat());
  const isInDoubt = known !== undefined && !others.delete(known) && others.size > 0;
  if (isInDoubt && (await client.digestOf(repository, known, abortable)) === undefined) return false;
  const refusals: Svc3Error[] = [];
  for (const digest of others)
    await client.deleteManifest(repository, digest, abortable).catch((error: unknown) => {
      if (!isDeletionRefused(error)) throw error;
      refusals.push(error);
    });
  if (refusals[0] !== undefined) throw refusals[0];
  if (known !== undefined) await client.deleteManifest(repository, known, abortable);
  return true;
}
