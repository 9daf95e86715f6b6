import type { ImageStatus } from '../../../api/image.ts';

/** Size of a guest whose memory was saved: it goes on in a VM of the same size only. */
export interface SavedGuest {
  readonly cpu: number;
  /** As a quantity. */
  readonly memory: string;
}

/** The guest whose memory an Image holds, where its size is known; undefined where it holds none. */
export function savedGuestOf({ memory, digest }: ImageStatus): SavedGuest | undefined {
  if (memory?.cpu === undefined || memory.digest !== digest) return undefined;
  return { cpu: memory.cpu, memory: memory.size };
}
