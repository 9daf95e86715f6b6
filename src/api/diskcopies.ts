import { Svc3Error } from '../errors.ts';
import type { Image, Iso } from './image.ts';
import { group } from './meta.ts';
import { isTerminating } from './owner.ts';
import { diskRefusals } from './reasons.ts';

/**
 * Name of the disk that this one is still to be copied from; undefined where it is no copy, is in the store, or where nothing comes of it
 * whatever happens to its source.
 */
export function awaitedSource(disk: Image | Iso): string | undefined {
  const { spec, status } = disk;
  if (isTerminating(disk) || status?.digest !== undefined || isGivenUp(disk)) return undefined;
  return spec.source.image?.name;
}

/** It was refused, or there is no store that it could lie in. */
function isGivenUp({ status }: Image | Iso): boolean {
  const stalled = status?.conditions?.find(({ type, status }) => type === 'Stalled' && status === 'True');
  return stalled !== undefined && (diskRefusals.has(stalled.reason) || stalled.reason === 'StoreMissing');
}

/**
 * Whether a copy was asked for after its source began to be deleted, by the clock of kube-apiserver; in the same second it is in time. Copy and
 * source ask the same question, so that neither waits for the other.
 */
export function comesTooLate({ metadata }: Image | Iso, deletionTimestamp: string | undefined): boolean {
  return deletionTimestamp !== undefined && (metadata.creationTimestamp ?? '') > deletionTimestamp;
}

/** @throws Svc3Error Conflict where what is to be copied is being deleted. */
export function refuseLateCopy(source: Image | Iso, field: 'image' | 'iso'): void {
  if (!isTerminating(source)) return;
  const { name } = source.metadata;
  throw new Svc3Error('Conflict', `${field} ${name} is being deleted: a copy comes too late`, {
    details: { group, kind: `${field}s`, name },
  });
}
