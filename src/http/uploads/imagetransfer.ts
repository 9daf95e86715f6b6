import { randomUUID } from 'node:crypto';
import { PassThrough, pipeline, Readable } from 'node:stream';
import { isSvc3Error, leavesOpen, Svc3Error } from '../../errors.ts';
import { imageAnnotations } from '../../api/image.ts';
import { repositoryPathOf } from '../../controllers/image/repositorypath.ts';
import type { NamespaceRegistries } from '../../controllers/image/registries.ts';
import { defaultFileBytes, type StoreSettings } from '../../controllers/image/settings.ts';
import type { RegistryClient } from '../../registry/client.ts';
import { diskDigestOf, locateDisk, openDisk, pushDisk } from '../../registry/disk.ts';
import { resolveImage, type ResolvedImage } from '../../registry/image.ts';
import { parseReference } from '../../registry/reference.ts';
import type { DiskDownload, ImageTransfer } from '../call/services.ts';
import type { UploadTargets } from '../../usecases/uploadtarget.ts';
import { asStoreRefusal, withStore } from './storerefusal.ts';
import { fileTooLarge, type UploadLimits } from './filelimit.ts';
import { UploadTurns } from './turns.ts';

const endings = /\.(qcow2|raw|img|iso)$/i;

/** The file's name in the image: its ending says how it is looked at first. */
function layerName(kind: 'Image' | 'ISO', fileName: string): string {
  const ending = endings.exec(fileName)?.[1]?.toLowerCase() ?? (kind === 'ISO' ? 'iso' : 'img');
  return `disk.${ending}`;
}

/**
 * Streams between clients and the store with the namespace's own credential; nothing lands on a disk of the api. An upload
 * becomes visible only when it is whole: the object is made (or an object that waits for its upload is annotated) after
 * the last byte is in the store, so that a broken upload leaves nothing.
 *
 * @throws Invalid from `upload` where the file is larger than any that is taken.
 */
export function createImageTransfer(
  targets: UploadTargets,
  registries: NamespaceRegistries,
  store: StoreSettings,
  { turns = new UploadTurns(), maxBytes = defaultFileBytes }: UploadLimits = {},
): ImageTransfer {
  return {
    async upload({ kind, namespace, name, fileName, description, architecture, size, ...sent }) {
      if (store.url === '')
        throw new Svc3Error('Conflict', 'this installation has no image store (chart value store.url)');
      if (size > maxBytes) throw fileTooLarge('Content-Length', maxBytes);
      const target = { kind, namespace, name };
      const uid = await targets.look(target, { description, architecture });
      const id = randomUUID();
      const { registry: host, repository } = repositoryPathOf(store, kind, namespace, name);
      const registry = await registries.open(namespace, host);
      try {
        const disk = {
          repository,
          tag: `upload-${id}`,
          architecture: architecture ?? 'amd64',
          fileName: layerName(kind, fileName),
          size,
          // Two uploads of the same bytes are two images: one may be deleted, the other may not.
          annotations: { [imageAnnotations.uploadId]: id },
          signal: sent.signal,
        };
        const { digest } = await turns.run({ ...sent, identity: sent.caller.key }, (content) =>
          withStore(() =>
            pushDisk(registry, { ...disk, content: Readable.from(content, { objectMode: false }) }),
          ),
        );
        return await targets
          .handOver(target, { id, digest, uid, description, architecture })
          .catch(async (error: unknown) => {
            if (isSvc3Error(error) && !leavesOpen(error))
              await registry.deleteManifest(repository, digest).catch(() => undefined);
            throw error;
          });
      } finally {
        await registry.close();
      }
    },

    async download({ disk, range, signal }) {
      const { name, namespace } = disk.metadata;
      const reference = parseReference(disk.status?.reference ?? '', 'image');
      const registry = await registries.open(namespace, reference.registry);
      try {
        const resolved = await resolveImage(registry, reference, { signal });
        const { repository } = reference;
        const { part, ...found } = (await openPart(registry, repository, resolved, { range, signal })) ?? {
          ...(await openDisk(registry, repository, resolved, { signal, isShared: true })),
          part: undefined,
        };
        // Before its first byte it is still the answer that fails.
        const out = new PassThrough({
          destroy: (error, done) => done(error === null ? null : asStoreRefusal(error)),
        });
        pipeline(found.stream, out, () => void registry.close().catch(() => undefined));
        const fileName = `${name}.${found.name.split('.').at(-1) ?? 'img'}`;
        const digest = diskDigestOf(resolved);
        return {
          stream: out,
          size: found.size,
          fileName,
          ...(digest === undefined ? {} : { digest }),
          ...(part === undefined ? {} : { part }),
        };
      } catch (error) {
        await registry.close();
        throw asStoreRefusal(error);
      }
    },
  };
}

type Opened = Omit<DiskDownload, 'fileName' | 'digest'> & { readonly name: string };

/** The part that is wanted; undefined where that is all, or where the layer is packed and cannot be read in parts. */
async function openPart(
  registry: RegistryClient,
  repository: string,
  image: ResolvedImage,
  {
    range,
    signal,
  }: { range: Parameters<ImageTransfer['download']>[0]['range'] | undefined; signal: AbortSignal },
): Promise<Opened | undefined> {
  if (range === undefined) return undefined;
  const disk = await locateDisk(registry, repository, image, signal);
  const part = disk === undefined ? undefined : range(disk.size);
  if (disk === undefined || part === undefined) return undefined;
  return { name: disk.name, size: disk.size, stream: disk.read(part.start, part.end + 1), part };
}
