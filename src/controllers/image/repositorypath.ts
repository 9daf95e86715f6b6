import { isDeepStrictEqual } from 'node:util';
import type { Image, Iso } from '../../api/image.ts';
import { parseReference, registryAddress } from '../../registry/reference.ts';
import type { StoreSettings } from './settings.ts';

export type DiskKind = 'Image' | 'ISO';

/** Where a disk lies in the store. */
export interface RepositoryPath {
  readonly registry: string;
  readonly repository: string;
}

/** Registry of the store, `host[:port]`; empty: there is none. */
export function storeRegistry({ url }: Pick<StoreSettings, 'url'>): string {
  return registryAddress(url).registry;
}

/** The scheme that the store's address names, for namespaces without a credential for it. */
export function storeScheme(store: StoreSettings): 'http' | 'https' {
  return store.url.startsWith('http://') ? 'http' : 'https';
}

/**
 * `<store>/<prefix>/<namespace>/<name>`; ISOs lie one folder deeper, since an Image and an ISO may have the same name (no
 * name of an Image has a slash).
 */
export function repositoryPathOf(
  store: StoreSettings,
  kind: DiskKind,
  namespace: string,
  name: string,
): RepositoryPath {
  const { registry, path } = registryAddress(store.url);
  const parts = [path, store.prefix, namespace, ...(kind === 'ISO' ? ['iso'] : []), name];
  return { registry, repository: parts.filter((part) => part !== '').join('/') };
}

/**
 * Where the status of a disk says that it lies, where that is not where the store has it now: the store's address or prefix has changed, or the object
 * came from elsewhere with its status.
 */
export function formerPlaceOf(
  { status }: Pick<Image | Iso, 'status'>,
  path: RepositoryPath | undefined,
): RepositoryPath | undefined {
  if (status?.reference === undefined) return undefined;
  const { registry, repository } = parseReference(status.reference, 'status.reference');
  const said = { registry, repository };
  return isDeepStrictEqual(said, path) ? undefined : said;
}

/** What a VM pod mounts. */
export function referenceOf({ registry, repository }: RepositoryPath, digest: string): string {
  return `${registry}/${repository}@${digest}`;
}
