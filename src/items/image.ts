import type { Image, Iso } from '../api/image.ts';
import { imageAnnotations } from '../image/names.ts';
import { conditionOf } from './vm.ts';

/** An Image or ISO as `/api/v1` and the CLI show it (contract: "Images, ISOs"). */
export interface ImageItem {
  name: string;
  namespace: string;
  description?: string;
  type?: string;
  size?: string;
  state: 'Ready' | 'Updating' | 'Failed';
  errorMessage?: string;
  progress?: number;
  createdAt?: string;
}

/** What may be said of one upload, and no longer of the next. */
const refusals: ReadonlySet<string> = new Set(['DiskRefused', 'UploadAbandoned']);

/** Whether what is said of it is said of the upload before: a disk that was refused has been sent once more. */
function isSentAgain({ metadata, spec, status }: Image | Iso): boolean {
  const upload = metadata.annotations?.[imageAnnotations.upload];
  return spec.source.upload !== undefined && upload !== undefined && upload.slice(-64) !== status?.request;
}

export function imageState(image: Image | Iso): ImageItem['state'] {
  const conditions = image.status?.conditions;
  const stalled = conditionOf(conditions, 'Stalled');
  if (stalled?.status === 'True')
    return refusals.has(stalled.reason) && isSentAgain(image) ? 'Updating' : 'Failed';
  const upToDate = image.status?.observedGeneration === image.metadata.generation;
  return upToDate && conditionOf(conditions, 'Ready')?.status === 'True' ? 'Ready' : 'Updating';
}

export function imageItem(image: Image | Iso): ImageItem {
  const state = imageState(image);
  const failed = state === 'Failed' ? conditionOf(image.status?.conditions, 'Stalled') : undefined;
  const members = {
    name: image.metadata.name ?? '',
    namespace: image.metadata.namespace ?? '',
    description: image.spec.description,
    type: image.status?.architecture,
    size: image.status?.size,
    state,
    errorMessage: failed?.message,
    progress: state === 'Ready' ? undefined : image.status?.progress,
    createdAt: image.metadata.creationTimestamp,
  };
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as unknown as ImageItem;
}
