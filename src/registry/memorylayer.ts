import type { RegistryClient } from './client.ts';
import { pushLayer, type LayerFile, type PushedLayer } from './layer.ts';

/**
 * Streams the memory of a guest into a registry as a layer of an image: `/memory/<file>`, compressed, since most of a memory holds
 * nothing. A container runtime writes it to the node's disk as it is.
 */
export function pushMemory(
  client: RegistryClient,
  repository: string,
  files: readonly LayerFile[],
  options: { readonly signal?: AbortSignal; readonly onProgress?: (bytes: number) => void } = {},
): Promise<PushedLayer> {
  return pushLayer(client, { repository, folder: 'memory', files, isCompressed: true, ...options });
}
