import type { StoreSettings } from './settings.ts';

export type DiskKind = 'Image' | 'ISO';

/** Where a disk lies in the store. */
export interface RepositoryPath {
  readonly registry: string;
  readonly repository: string;
}

/** Registry of the store, `host[:port]`. */
export function storeRegistry(store: StoreSettings): string {
  return hostAndPath(store).split('/', 1)[0] ?? '';
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
  const [, ...path] = hostAndPath(store).split('/');
  const registry = registryOf(store);
  const parts = [...path, store.prefix, namespace, ...(kind === 'ISO' ? ['iso'] : []), name];
  return { registry, repository: parts.filter((part) => part !== '').join('/') };
}

/** What a VM pod mounts. */
export function referenceOf({ registry, repository }: RepositoryPath, digest: string): string {
  return `${registry}/${repository}@${digest}`;
}

/** `host[:port]` of the store; empty: there is none. */
export function registryOf(store: Pick<StoreSettings, 'url'>): string {
  return hostAndPath(store).split('/', 1)[0] ?? '';
}

function hostAndPath({ url }: Pick<StoreSettings, 'url'>): string {
  return url.replace(/^[a-z]+:\/\//, '').replace(/\/+$/, '');
}
