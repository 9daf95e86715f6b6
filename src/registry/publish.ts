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

/** Tags that are asked for before what lies under them is deleted: whoever has time for a part of them only still gets on. */
const tagsAtOnce = 100;

/**
 * Deletes every version of an image, and every upload to it; its blobs go when the registry collects its garbage. The known one goes last: while it is there, so is what tells
 * that the others are of this image. One that the registry refuses to delete (`isDeletionRefused`) keeps none of the others. A call that is aborted has deleted some; the next
 * one goes on with those that are left.
 *
 * @param known - digest of its newest version, which may have lost its tags; undefined where it has none
 * @returns false where nothing is deleted: the repository has versions, and not that one, so that they are of another image of the name
 * @throws the first refusal, when the others have gone or the signal has come
 */
export async function deleteVersions(
  client: RegistryClient,
  repository: string,
  known: string | undefined,
  signal?: AbortSignal,
): Promise<boolean> {
  const abortable = signal === undefined ? {} : { signal };
  const refusals: Svc3Error[] = [];
  const deleteOne = (digest: string): Promise<void> =>
    client.deleteManifest(repository, digest, abortable).catch((error: unknown) => {
      if (!isDeletionRefused(error)) throw error;
      refusals.push(error);
    });
  const tags = await client.tags(repository, abortable);
  let isOfThis = known === undefined;
  try {
    for (let at = 0; at < tags.length; at += tagsAtOnce) {
      const some = tags.slice(at, at + tagsAtOnce);
      const tagged = await Promise.all(some.map((tag) => digestsUnder(client, { repository, tag }, signal)));
      const others = new Set(tagged.flat());
      if (known !== undefined && others.delete(known)) isOfThis = true;
      if (others.size === 0) continue;
      isOfThis ||= (await client.digestOf(repository, known ?? '', abortable)) !== undefined;
      if (!isOfThis) return false;
      for (const digest of others) await deleteOne(digest);
    }
  } catch (error) {
    // More time would not help against a refusal, and a refusal is asked again for an hour only.
    throw signal?.aborted === true ? (refusals[0] ?? error) : error;
  }
  if (refusals[0] !== undefined) throw refusals[0];
  if (known !== undefined) await client.deleteManifest(repository, known, abortable);
  return true;
}
