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
  return isAwaiting(disk) ? disk.spec.source.image?.name : undefined;
}

/** Name of the VM whose disk this one is still to have; undefined where it is none, or under the same circumstances as `awaitedSource`. */
export function awaitedVm(disk: Image | Iso): string | undefined {
  const source: Image['spec']['source'] = disk.spec.source;
  return isAwaiting(disk) ? source.vm?.name : undefined;
}

function isAwaiting(disk: Image | Iso): boolean {
  return !isTerminating(disk) && disk.status?.digest === undefined && !isGivenUp(disk);
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
