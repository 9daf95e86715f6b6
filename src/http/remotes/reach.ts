import { repositoryPathOf, storeRegistry } from '../../controllers/image/repositorypath.ts';
import type { StoreSettings } from '../../controllers/image/settings.ts';
import { uploadTag } from '../../registry/parts.ts';
import type { RemoteCatalog, RemoteImage } from '../call/services.ts';

/** Container images of svc3 itself, as the chart names them: nobody's disks. */
const ownImages: ReadonlySet<string> = new Set(['svc3', 'svc3-runner']);

/**
 * What of a remote list is a namespace's to pull: of the image store only its own repository path, no uploads under way, and not
 * svc3's own container images. The store's layout tells ISOs from images; of other registries only a pull does.
 */
export function withinReach(catalog: RemoteCatalog, store: StoreSettings): RemoteCatalog {
  return {
    async list(namespace, signal) {
      const { items, incomplete } = await catalog.list(namespace, signal);
      return { items: items.flatMap((item) => reached(item, namespace, store)), incomplete };
    },
  };
}

function reached(item: RemoteImage, namespace: string, store: StoreSettings): RemoteImage[] {
  const { registry, repository, tag } = partsOf(item.name);
  if (isUpload(tag)) return [];
  const tags = item.tags === undefined ? {} : { tags: item.tags.filter((one) => !isUpload(one)) };
  const kind = kindIn(registry, repository, namespace, store);
  if (kind === 'foreign') return [];
  return [{ ...item, ...tags, ...(kind === undefined ? {} : { kind }) }];
}

/** `foreign`: not this namespace's; undefined: its registry does not tell. */
function kindIn(
  registry: string,
  repository: string,
  namespace: string,
  store: StoreSettings,
): 'image' | 'iso' | 'foreign' | undefined {
  if (registry === storeRegistry(store)) {
    const own = repositoryPathOf(store, 'Image', namespace, '').repository;
    const all = repositoryPathOf(store, 'Image', '', '').repository;
    if (repository.startsWith(`${own}/iso/`)) return 'iso';
    if (repository.startsWith(`${own}/`)) return 'image';
    if (all !== '' && repository.startsWith(`${all}/`)) return 'foreign';
  }
  return ownImages.has(repository.split('/').at(-1) ?? '') ? 'foreign' : undefined;
}

function isUpload(tag: string): boolean {
  return tag.startsWith(uploadTag(''));
}

/** `host[:port]/path:tag`. */
function partsOf(name: string): { registry: string; repository: string; tag: string } {
  const slash = name.indexOf('/');
  const colon = name.lastIndexOf(':');
  return {
    registry: name.slice(0, slash),
    repository: name.slice(slash + 1, colon),
    tag: name.slice(colon + 1),
  };
}
