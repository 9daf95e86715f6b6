import { Readable } from 'node:stream';
import type { ImageStatus } from '../../api/image.ts';
import { parseQuantity } from '../../api/quantity.ts';
import { isSvc3Error, messageOf, Svc3Error } from '../../errors.ts';
import type { RegistryClient } from '../../registry/client.ts';
import { pushDisk } from '../../registry/disk.ts';
import { copyImage, resolveImage } from '../../registry/image.ts';
import { deletesNothing, isDeletionRefused } from '../../registry/deletion.ts';
import { deleteUpload } from '../../registry/parts.ts';
import { deleteVersions, publish } from '../../registry/publish.ts';
import { parseReference } from '../../registry/reference.ts';
import { blankQcow2 } from './blankdisk.ts';
import type { Disk } from './caches.ts';
import { StepFailed } from './failure.ts';
import { architectureOf } from './names.ts';
import { formerPlaceOf, referenceOf, type RepositoryPath } from './repositorypath.ts';
import type { NamespaceRegistries } from './registries.ts';
import { storedBy, type Stored } from './status.ts';

/** Longest that a registry may take for work that moves no bytes to speak of. */
const timeoutMs = 60_000;

export interface StoreWorkOptions {
  readonly registries: NamespaceRegistries;
  readonly disk: Disk;
  readonly path: RepositoryPath;
  /** Tag of the version that is made. */
  readonly tag: string;
  readonly signal: AbortSignal;
  /** Default: a minute. */
  readonly timeoutMs?: number;
}

/** @throws Timeout where the store takes longer than it may; what it has refused by then is thrown as it is. */
async function inStore<T>(
  { registries, disk, path, signal, timeoutMs: withinMs = timeoutMs }: Omit<StoreWorkOptions, 'tag'>,
  work: (client: RegistryClient, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timeout = AbortSignal.timeout(withinMs);
  const client = await registries.open(disk.metadata.namespace, path.registry);
  try {
    return await work(client, AbortSignal.any([signal, timeout]));
  } catch (error) {
    if (!timeout.aborted || signal.aborted || isSvc3Error(error)) throw error;
    const message = `registry ${path.registry} did not answer within ${withinMs / 1000} s`;
    throw new Svc3Error('Timeout', message, { cause: error });
  } finally {
    await client.close();
  }
}

/** Makes an empty disk: its qcow2 file is a few clusters, so that no worker is needed. */
export async function makeBlank(options: StoreWorkOptions, size: string): Promise<Stored> {
  const { disk, path, tag } = options;
  return inStore(options, async (client, signal) => {
    const bytes = parseQuantity(size, 'spec.source.blank.size');
    const content = blankQcow2(bytes);
    const architecture = architectureOf(disk);
    const pushed = await pushDisk(client, {
      repository: path.repository,
      tag,
      architecture,
      fileName: 'disk.qcow2',
      size: content.length,
      content: Readable.from([content]),
      noteDigest: true,
      signal,
    });
    await publish(client, path.repository, pushed.digest, signal);
    return storedBy(
      {
        result: 'Done',
        digest: pushed.digest,
        size: Math.ceil(bytes / 512) * 512,
        storedSize: pushed.size,
        format: 'qcow2',
        architecture,
      },
      path,
    );
  });
}

/**
 * Copies within the store by mounting blobs: no bytes move.
 *
 * @throws NotImplemented when the store does not mount, or the source lies in another registry.
 */
export async function copyInStore(options: StoreWorkOptions, source: ImageStatus): Promise<Stored> {
  const { path, tag } = options;
  const from = parseReference(source.reference ?? '', 'status.reference');
  if (from.registry !== path.registry)
    throw new Svc3Error('NotImplemented', 'the source lies in another registry');
  return inStore(options, async (client, signal) => {
    const image = await resolveImage(client, from, { signal });
    const digest = await copyImage(client, image, from.repository, {
      repository: path.repository,
      tag,
      signal,
    });
    await publish(client, path.repository, digest, signal);
    const { size = '0', storedSize = '0', format = 'qcow2', architecture = 'amd64' } = source;
    return { digest, reference: referenceOf(path, digest), size, storedSize, format, architecture };
  });
}

/**
 * Forgets an upload that was taken over or refused, unless the tag is the upload itself. A store that does not delete (`isDeletionRefused`) keeps it.
 *
 * @throws where the store does not answer, or fails or denies it in this moment: it is to be asked again.
 */
export async function forgetUpload(
  { registries, disk, path, tag }: Omit<StoreWorkOptions, 'signal'>,
  digest: string,
): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const { repository, registry } = path;
  const client = await registries.open(disk.metadata.namespace, registry);
  try {
    if ((await client.digestOf(repository, tag, { signal })) === digest) return;
    await deleteUpload(client, { repository, digest }, signal);
  } catch (error) {
    if (!isDeletionRefused(error) && !isSvc3Error(error, 'NotFound')) throw error;
  } finally {
    await client.close();
  }
}

/**
 * Deletes all versions of a disk. Returns why something is left in the store; undefined where nothing is.
 *
 * @throws StepFailed where the store refuses, which may pass.
 */
export async function purge(options: Omit<StoreWorkOptions, 'tag'>): Promise<string | undefined> {
  const { disk, path } = options;
  // One that lies elsewhere has no version that would have to be here.
  const digest = formerPlaceOf(disk, path) === undefined ? disk.status?.digest : undefined;
  try {
    const isDeleted = await inStore(options, (client, signal) =>
      deleteVersions(client, path.repository, digest, signal),
    );
    if (isDeleted) return undefined;
    return `${path.registry}/${path.repository} has not ${digest}, which the status names, and has other versions: they are of another disk of this name, and stay`;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    if (!isDeletionRefused(error)) throw error;
    if (deletesNothing(error)) return 'the store does not delete images; what was stored stays there';
    const message = `the store refuses to delete what it has: ${messageOf(error)}`.slice(0, 1024);
    throw new StepFailed({ reason: 'DeletionRefused', message }, error);
  }
}
