import type { Image, Iso } from '../api/image.ts';
import { awaitedSource, awaitedVm } from '../api/diskcopies.ts';
import { imageAnnotations } from '../api/image.ts';
import type { Condition } from '../api/object.ts';
import type { ImageItem } from './schemas.ts';
import { conditionOf } from './vm.ts';

export type { ImageItem };

/** What may be said of one upload, and no longer of the next. */
const refusals: ReadonlySet<string> = new Set([
  'DiskRefused',
  'UploadAbandoned',
  'UploadLost',
  'RegistryDenied',
]);

/** Whether what is said of it is said of the upload before: a disk that was refused has been sent once more. */
function isSentAgain({ metadata, spec, status }: Image | Iso): boolean {
  const upload = metadata.annotations?.[imageAnnotations.upload];
  return spec.source.upload !== undefined && upload !== undefined && upload.slice(-64) !== status?.request;
}

/** Reasons of a disk that is being made, or deleted, for which it is tried again by itself. */
const troubles: ReadonlySet<string> = new Set([
  'RegistryUnreachable',
  'WorkerFailed',
  'WorkerRefused',
  'RunnerUnreachable',
  'DeletionRefused',
  'InUse',
]);

export function imageState(image: Image | Iso): ImageItem['state'] {
  const conditions = image.status?.conditions;
  const stalled = conditionOf(conditions, 'Stalled');
  if (stalled?.status === 'True' && stalled.reason !== 'AwaitingUpload')
    return refusals.has(stalled.reason) && isSentAgain(image) ? 'Updating' : 'Failed';
  const upToDate = image.status?.observedGeneration === image.metadata.generation;
  return upToDate && conditionOf(conditions, 'Ready')?.status === 'True' ? 'Ready' : 'Updating';
}

/** Whether there is a version that can be downloaded; a commit that is under way or has failed takes nothing away. */
export function isUsable({ metadata, status }: Image | Iso): boolean {
  const ready = conditionOf(status?.conditions, 'Ready')?.status === 'True';
  return ready && status?.digest !== undefined && metadata.deletionTimestamp === undefined;
}

/** What keeps the disk from being made; of an Image that is Ready, why its last commit failed. */
function failureOf({ metadata, status }: Image | Iso, state: ImageItem['state']): Condition | undefined {
  const ready = conditionOf(status?.conditions, 'Ready');
  const stalled = conditionOf(status?.conditions, 'Stalled');
  if (state === 'Failed') return stalled ?? ready;
  if (state === 'Updating' && ready?.status === 'False' && troubles.has(ready.reason)) return ready;
  const committed = conditionOf(status?.conditions, 'Committed');
  const isNews = state === 'Ready' || committed?.observedGeneration === metadata.generation;
  return committed?.status === 'False' && isNews ? committed : undefined;
}

/** Whether its deletion waits until nobody uses it, which may take for ever. */
export function isHeldForUsers({ metadata, status }: Image | Iso): boolean {
  return (
    metadata.deletionTimestamp !== undefined && conditionOf(status?.conditions, 'Ready')?.reason === 'InUse'
  );
}

/** What is said of an Image or ISO whose deletion was asked for and that is not gone yet. */
export function diskDeletionMessage(word: 'image' | 'iso', disk: Image | Iso): string {
  const { metadata, status } = disk;
  const ready = conditionOf(status?.conditions, 'Ready');
  // What was in the store was Ready before: whatever is in the way now is in the way of the deletion.
  const isOfDeletion = status?.digest !== undefined && metadata.deletionTimestamp !== undefined;
  const isTold = isHeldForUsers(disk) || (isOfDeletion && ready?.status === 'False');
  return `deletion of ${word} ${metadata.name} has begun${isTold ? `: ${ready?.message}` : ''}`;
}

/** A commit makes a version without, and leaves what is said of the one before. */
function memoryOf({ status }: Image | Iso): ImageItem['memory'] {
  const { memory, digest } = status ?? {};
  if (memory === undefined || memory.digest !== digest) return undefined;
  const { size, cpu, cpuModel, accelerator, qemu, stoppedMs } = memory;
  return {
    size,
    cpuModel,
    accelerator,
    qemu,
    ...(cpu === undefined ? {} : { cpu }),
    ...(stoppedMs === undefined ? {} : { stoppedMs }),
  };
}

export function imageItem(image: Image | Iso): ImageItem {
  const state = imageState(image);
  const failed = failureOf(image, state);
  const members = {
    name: image.metadata.name,
    namespace: image.metadata.namespace,
    uid: image.metadata.uid,
    description: image.spec.description,
    type: image.status?.architecture,
    size: image.status?.size,
    state,
    errorMessage: failed?.message,
    usable: isUsable(image) || undefined,
    progress: state === 'Ready' ? undefined : image.status?.progress,
    copyOf: awaitedSource(image),
    saveOf: awaitedVm(image),
    commitRequest: 'commit' in image.spec ? image.spec.commit?.request : undefined,
    memory: memoryOf(image),
    createdAt: image.metadata.creationTimestamp,
  };
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as unknown as ImageItem;
}
