import type { Image, Iso } from '../api/image.ts';
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

export function imageState(image: Image | Iso): ImageItem['state'] {
  const conditions = image.status?.conditions;
  if (conditionOf(conditions, 'Stalled')?.status === 'True') return 'Failed';
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
