import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { isSvc3Error, Svc3Error } from '../errors.ts';
import { mediaTypes, type RegistryClient } from './client.ts';
import { blobOf, verified } from './blob.ts';
import { isDeletionRefused } from './deletion.ts';
import { sizeOf, type Descriptor, type Manifest } from './manifest.ts';
import { sendPieces } from './pieces.ts';

/**
 * A file that comes in parts, each of them a blob, listed in order by the manifest under the upload's tag. Whoever has the tag
 * knows how far the file has come and can go on with it: nothing is kept in a process.
 */
export interface PartList {
  /** Of the manifest. */
  readonly digest: string;
  readonly parts: readonly Descriptor[];
  /** Bytes of all parts. */
  readonly offset: number;
  readonly annotations: Readonly<Record<string, string>>;
  /**
   * Digests of the lists before it that may still be there, newest first. Without a tag nobody else finds them, and what they name stays when the
   * registry collects its garbage.
   */
  readonly before: readonly string[];
  /** When it was written, in milliseconds since 1970; undefined in lists of earlier versions. */
  readonly writtenAt: number | undefined;
}

/** Where a list of parts lies. */
export interface PartsReference {
  readonly repository: string;
  readonly tag: string;
}

const types = {
  config: 'application/vnd.svc3.upload.config.v1+json',
  part: 'application/vnd.svc3.upload.part.v1',
} as const;
const config = Buffer.from('{}');
const writtenAt = 'svc3.dev/written-at';
/** Digests with commas between them. */
const before = 'svc3.dev/before';
/** A registry that deletes nothing keeps them all, whatever is remembered: a manifest has 4 MiB at most, which the parts need. */
const mostBefore = 64;
/** What is lost at most when a process dies in the middle of a part. */
const defaultPartBytes = 64 * 2 ** 20;

/** The tag of an upload, also of one that came at once. */
export function uploadTag(id: string): string {
  return `upload-${id}`;
}

function isUploadTag(tag: string): boolean {
  return tag.startsWith(uploadTag(''));
}

/** Whether an image is a file in parts. */
export function isPartList(manifest: Manifest): boolean {
  return manifest.config?.mediaType === types.config;
}

/** @throws NotFound when there is no such upload. */
export async function readParts(
  client: RegistryClient,
  { repository, tag }: PartsReference,
  signal?: AbortSignal,
): Promise<PartList> {
  const { digest, manifest } = await client.manifest(repository, tag, abortable(signal));
  return listOf(digest, manifest.layers ?? [], manifest.annotations ?? {});
}

function listOf(
  digest: string,
  parts: readonly Descriptor[],
  annotations: Readonly<Record<string, string>>,
): PartList {
  const at = Date.parse(annotations[writtenAt] ?? '');
  return {
    digest,
    parts,
    annotations,
    before: (annotations[before] ?? '').split(',').filter((one) => /^sha256:[0-9a-f]{64}$/.test(one)),
    offset: sizeOf(parts, 'the upload'),
    writtenAt: Number.isNaN(at) ? undefined : at,
  };
}

/** Writes the list down; the ones before it go. Those that the registry does not delete now are remembered in the list. */
export async function writeParts(
  client: RegistryClient,
  { repository, tag }: PartsReference,
  list: Pick<PartList, 'parts' | 'annotations'> & Partial<Pick<PartList, 'digest' | 'before'>>,
): Promise<PartList> {
  const { parts } = list;
  const { [before]: _, ...kept } = list.annotations;
  const former = [...(list.digest === undefined ? [] : [list.digest]), ...(list.before ?? [])];
  const left = former.slice(0, mostBefore);
  const annotations = {
    ...kept,
    [writtenAt]: new Date().toISOString(),
    // Before they are deleted: whoever dies in between, or is refused, leaves them to the next.
    ...(left.length === 0 ? {} : { [before]: left.join(',') }),
  };
  const configDigest = await client.putBlob(repository, config);
  const manifest: Manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config: { mediaType: types.config, digest: configDigest, size: config.length },
    layers: [...parts],
    annotations,
  };
  const bytes = Buffer.from(JSON.stringify(manifest));
  const digest = await client.putManifest(repository, tag, bytes, mediaTypes.ociManifest);
  const others = left.filter((one) => one !== digest);
  return { ...listOf(digest, parts, annotations), before: await deleteNow(client, repository, others) };
}

/** Deletes lists, newest first, as long as the registry does: an outage, or a refusal, costs one request. Returns those that may still be there. */
async function deleteNow(
  client: RegistryClient,
  repository: string,
  digests: readonly string[],
): Promise<readonly string[]> {
  for (const [index, digest] of digests.entries())
    try {
      await client.deleteManifest(repository, digest);
    } catch {
      return digests.slice(index);
    }
  return [];
}

/**
 * Deletes a list and those before it, which go first: as long as the list is there they are known. One of those that the registry refuses to
 * delete keeps none of the others.
 *
 * @throws where the registry does not delete the list, or does not answer
 */
async function deleteList(
  client: RegistryClient,
  repository: string,
  { digest, before }: Pick<PartList, 'digest' | 'before'>,
  signal?: AbortSignal,
): Promise<void> {
  for (const former of before)
    await client.deleteManifest(repository, former, abortable(signal)).catch((error: unknown) => {
      if (!isDeletionRefused(error)) throw error;
    });
  await client.deleteManifest(repository, digest, abortable(signal));
}

export interface PartsToAppend {
  readonly list: PartList;
  readonly content: AsyncIterable<Buffer>;
  /** Bytes after which a part is closed. */
  readonly partBytes?: number;
}

/**
 * Appends what comes, part by part. Where the content breaks off, what came of it is kept before the error is thrown again;
 * the list with it is read anew by whoever goes on.
 *
 * @throws Conflict where `list` is not the upload's any more; nothing is written then.
 */
export async function appendParts(
  client: RegistryClient,
  reference: PartsReference,
  { list, content, partBytes = defaultPartBytes }: PartsToAppend,
): Promise<PartList> {
  let known = list;
  let broken: { readonly error: unknown } | undefined;
  const source = untilBroken(content, (error) => (broken = { error }));
  for (let isEnd = false; !isEnd;) {
    const upload = await client.upload(reference.repository);
    const hash = createHash('sha256');
    const part = firstBytes(source, partBytes);
    let size: number;
    try {
      size = await sendPieces(upload, part.bytes, { onPiece: (piece) => hash.update(piece) });
    } catch (error) {
      await upload.cancel();
      throw error;
    }
    isEnd = part.isEnd();
    if (size === 0) {
      await upload.cancel();
      continue;
    }
    const digest = `sha256:${hash.digest('hex')}`;
    await upload.finish(digest);
    const parts = [...known.parts, { mediaType: types.part, digest, size }];
    await assertCurrent(client, reference, known, known !== list);
    known = await writeParts(client, reference, { ...known, parts });
  }
  if (broken !== undefined) throw broken.error;
  return known;
}

/**
 * A connection that died is noticed late: somebody else may have gone on with the upload, completed it, and had it taken over. Where no list is found
 * none is deleted: this one may be all that there is.
 *
 * @param isOwn - whether the list was written here: somebody who wrote at the same time does not know of it
 * @throws Conflict.
 */
async function assertCurrent(
  client: RegistryClient,
  { repository, tag }: PartsReference,
  { digest, before }: PartList,
  isOwn: boolean,
): Promise<void> {
  const current = await client.digestOf(repository, tag);
  if (current === digest) return;
  if (isOwn && current !== undefined) await deleteNow(client, repository, [digest, ...before]);
  throw new Svc3Error('Conflict', 'the upload has been gone on with or completed meanwhile');
}

/** At least `size` bytes of an iterator that others go on with, in whole chunks. */
function firstBytes(source: AsyncIterator<Buffer>, size: number) {
  let isEnd = false;
  async function* bytes(): AsyncGenerator<Buffer> {
    for (let given = 0; given < size;) {
      const next = await source.next();
      isEnd = next.done === true;
      if (next.done === true) return;
      given += next.value.length;
      yield next.value;
    }
  }
  return { bytes: bytes(), isEnd: () => isEnd };
}

async function* untilBroken(
  content: AsyncIterable<Buffer>,
  tell: (error: unknown) => void,
): AsyncGenerator<Buffer> {
  try {
    yield* content;
  } catch (error) {
    tell(error);
  }
}

/** The parts' bytes one after the other; fails where a part is not what its digest says. */
export function readAllParts(
  client: RegistryClient,
  repository: string,
  parts: readonly Descriptor[],
  signal?: AbortSignal,
): Readable {
  async function* bytes(): AsyncGenerator<Buffer> {
    for (const part of parts)
      yield* verified(blobOf(client, repository, part, { signal }), {
        ...part,
        what: `a part of an upload to ${client.registry}/${repository}`,
      });
  }
  return Readable.from(bytes(), { objectMode: false });
}

/** Forgets an upload; a registry that does not delete keeps it, no harm. */
export async function deleteParts(client: RegistryClient, reference: PartsReference): Promise<void> {
  try {
    await deleteList(client, reference.repository, await readParts(client, reference));
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound', 'MethodNotAllowed')) throw error;
  }
}

/**
 * Deletes an upload, in parts or not, by its digest; the lists before it go with it.
 *
 * @throws where the registry does not delete it, or does not answer
 */
export async function deleteUpload(
  client: RegistryClient,
  { repository, digest }: { readonly repository: string; readonly digest: string },
  signal: AbortSignal,
): Promise<void> {
  const list = await listAt(client, { repository, tag: digest }, signal);
  await deleteList(client, repository, list ?? { digest, before: [] }, signal);
}

/** Digests of what a tag has, the newest last: of an upload in parts also those of the lists before it that may still be there. None where there is nothing. */
export async function digestsUnder(
  client: RegistryClient,
  { repository, tag }: PartsReference,
  signal?: AbortSignal,
): Promise<readonly string[]> {
  const list = isUploadTag(tag) ? await listAt(client, { repository, tag }, signal) : undefined;
  if (list !== undefined) return [...list.before, list.digest];
  const digest = await client.digestOf(repository, tag, abortable(signal));
  return digest === undefined ? [] : [digest];
}

/**
 * Forgets the uploads to a repository that were written for the last time before `before` (milliseconds since 1970). Parts go when
 * the registry collects its garbage.
 *
 * @returns those that were forgotten, and those that somebody may go on with.
 */
export async function giveUpUploads(
  client: RegistryClient,
  repository: string,
  before: number,
): Promise<{ readonly givenUp: readonly PartList[]; readonly going: readonly PartList[] }> {
  const givenUp: PartList[] = [];
  const going: PartList[] = [];
  for (const tag of await client.tags(repository)) {
    const list = isUploadTag(tag) ? await listAt(client, { repository, tag }) : undefined;
    if (list === undefined) continue;
    if (list.writtenAt === undefined || list.writtenAt >= before) going.push(list);
    else {
      await deleteList(client, repository, list);
      givenUp.push(list);
    }
  }
  return { givenUp, going };
}

/** Undefined where something else has that tag, or it has gone meanwhile. */
async function listAt(
  client: RegistryClient,
  { repository, tag }: PartsReference,
  signal?: AbortSignal,
): Promise<PartList | undefined> {
  try {
    const { digest, manifest } = await client.manifest(repository, tag, abortable(signal));
    if (!isPartList(manifest)) return undefined;
    return listOf(digest, manifest.layers ?? [], manifest.annotations ?? {});
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

function abortable(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}
