import type { DiskFacts } from '../../image/nameddisk.ts';

/** Size of a guest whose memory was saved: it goes on in a VM of the same size only. */
export interface SavedGuest {
  readonly cpu: number;
  /** As a quantity. */
  readonly memory: string;
}

/**
 * The guest whose memory an Image holds for VMs of this namespace, its own; undefined where it holds none, or the size is not known.
 */
export function savedGuestOf(image: DiskFacts | undefined, namespace: string): SavedGuest | undefined {
  const { memory, digest } = image?.status ?? {};
  if (memory?.cpu === undefined || memory.digest !== digest) return undefined;
  return image?.metadata.namespace === namespace ? { cpu: memory.cpu, memory: memory.size } : undefined;
}
