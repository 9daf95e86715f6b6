import { randomUUID } from 'node:crypto';
import { PassThrough, pipeline } from 'node:stream';
import type { Image, Iso } from '../api/image.ts';
import { images, isos } from '../api/resources.ts';
import { Svc3Error, isSvc3Error } from '../errors.ts';
import { imageAnnotations } from '../image/names.ts';
import { placeOf } from '../image/place.ts';
import type { NamespaceRegistries } from '../image/registries.ts';
import type { StoreSettings } from '../image/settings.ts';
import type { KubeClient, Resource } from '../kube/types.ts';
import { openDisk, pushDisk } from '../registry/disk.ts';
import { resolveImage } from '../registry/image.ts';
import { parseReference } from '../registry/reference.ts';
import type { ImageTransfer } from './services.ts';

type Disk = Image | Iso;

const endings = /\.(qcow2|raw|img|iso)$/i;

/** The file's name in the image: its ending says how it is looked at first. */
function layerName(kind: 'Image' | 'ISO', fileName: string): string {
  const ending = endings.exec(fileName)?.[1]?.toLowerCase() ?? (kind === 'ISO' ? 'iso' : 'img');
  return `disk.${ending}`;
}

function exists(kind: 'Image' | 'ISO', name: string): Svc3Error {
  return new Svc3Error(
    'AlreadyExists',
    `${kind === 'ISO' ? 'isos' : 'images'}.svc3.dev "${name}" already exists`,
    {
      details: {
        group: 'svc3.dev',
        kind: kind === 'ISO' ? 'isos' : 'images',
        name,
        causes: [{ field: 'name', message: 'already exists' }],
      },
    },
  );
}

/**
 * Streams between clients and the store with the namespace's own credential; nothing lands on a disk of the api. An upload
 * becomes visible only when it is whole: the object is made (or an object that waits for its upload is annotated) after
 * the last byte is in the store, so that a broken upload leaves nothing.
 */
export function createImageTransfer(
  client: KubeClient,
  registries: NamespaceRegistries,
  store: StoreSettings,
): ImageTransfer {
  async function waiting(
    resource: Resource<Disk>,
    kind: 'Image' | 'ISO',
    name: string,
    namespace: string,
  ): Promise<Disk | undefined> {
    try {
      const disk = await client.get(resource, name, namespace);
      if (
        disk.spec.source.upload === undefined ||
        disk.metadata.annotations?.[imageAnnotations.upload] !== undefined
      )
        throw exists(kind, name);
      return disk;
    } catch (error) {
      if (isSvc3Error(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  return {
    async upload({ kind, namespace, name, fileName, description, size, content, signal }) {
      if (store.url === '')
        throw new Svc3Error('Conflict', 'this installation has no image store (chart value store.url)');
      const resource = (kind === 'ISO' ? isos : images) as Resource<Disk>;
      const found = await waiting(resource, kind, name, namespace);
      const place = placeOf(store, kind, namespace, name);
      const registry = await registries.open(namespace, place.registry);
      let digest: string;
      try {
        ({ digest } = await pushDisk(registry, {
          repository: place.repository,
          tag: `upload-${randomUUID()}`,
          architecture: 'amd64',
          fileName: layerName(kind, fileName),
          size,
          content,
          signal,
        }));
      } finally {
        await registry.close();
      }
      const annotations = { [imageAnnotations.upload]: digest };
      if (found !== undefined) {
        const body = {
          metadata: { annotations, ...(found.metadata.uid === undefined ? {} : { uid: found.metadata.uid }) },
        };
        return await client.patch(
          resource,
          { name, namespace },
          { type: 'merge', body },
          { fieldManager: 'svc3-api' },
        );
      }
      return await client.create(resource, {
        metadata: { name, namespace, annotations },
        spec: { ...(description === undefined ? {} : { description }), source: { upload: {} } },
      });
    },

    async download({ image, signal }) {
      const { name = '', namespace = '' } = image.metadata;
      const reference = parseReference(image.status?.reference ?? '', 'image');
      const registry = await registries.open(namespace, reference.registry);
      const found = await resolveImage(registry, reference, { signal })
        .then((resolved) => openDisk(registry, reference.repository, resolved, { signal }))
        .catch(async (error: unknown) => {
          await registry.close();
          throw error;
        });
      const out = new PassThrough();
      pipeline(found.stream, out, () => void registry.close().catch(() => undefined));
      return { stream: out, size: found.size, fileName: `${name}.${found.name.split('.').at(-1) ?? 'img'}` };
    },
  };
}
