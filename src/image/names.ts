import { createHash } from 'node:crypto';
import type { Image, Iso } from '../api/image.ts';

/** Secret of a namespace with the one-time tickets of its worker pods, one entry for each piece of work. */
export const ticketSecret = 'svc3-worker-tickets';

export const imageAnnotations = {
  /** On Images and ISOs: digest of the manifest that an upload left in the store. */
  upload: 'svc3.dev/upload',
  /** On Images and ISOs: id of that upload, so that a client that lost the answer learns that it is done. */
  uploadId: 'svc3.dev/upload-id',
  /** On Images that are blank or uploaded: amd64 or arm64, since nothing else says it. */
  architecture: 'svc3.dev/architecture',
} as const;

/**
 * What is to be done for a disk now, as a word that changes with every new wish: a commit's request, an upload's digest,
 * `create` for everything that is done once. `undefined`: an upload that has not come yet.
 */
export function wishOf(disk: Image | Iso): string | undefined {
  const source: Image['spec']['source'] = disk.spec.source;
  if (source.vm?.mode === 'Commit') return source.vm.request ?? source.vm.name;
  if (source.upload !== undefined) return disk.metadata.annotations?.[imageAnnotations.upload]?.slice(-64);
  return 'create';
}

/** Id of the work for a wish: name of its export, tag of its version, entry of its ticket. */
export function workId(disk: Image | Iso, wish: string): string {
  return createHash('sha256')
    .update(`${disk.metadata.uid ?? ''}/${wish}`)
    .digest('hex')
    .slice(0, 32);
}

export function workerPodName(id: string): string {
  return `svc3-worker-${id}`;
}

export function architectureOf(disk: Image | Iso): 'amd64' | 'arm64' {
  return disk.metadata.annotations?.[imageAnnotations.architecture] === 'arm64' ? 'arm64' : 'amd64';
}
