import type { ImageStatus } from '../../api/image.ts';
import type { NamespacedMeta } from '../../api/object.ts';
import { isTerminating } from '../../api/owner.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { findCondition, isTrue } from '../../controller/conditions.ts';

/** Fields of its status that VMs and pools read of an Image or ISO that they name, beside its condition Ready. */
const readFields = ['architecture', 'digest', 'memory', 'reference', 'size'] as const;

/** As much of an Image or ISO as VMs and pools that name it may read; what else they are to read belongs into `readByUsers` as well. */
export interface DiskFacts {
  readonly metadata: Pick<NamespacedMeta, 'namespace' | 'deletionTimestamp'>;
  readonly status?: DiskStatus;
}

type DiskStatus = Pick<ImageStatus, 'conditions' | (typeof readFields)[number]>;

/** The state of an Image or ISO for a VM or VMConfig that names it. */
export type NamedDisk =
  | { readonly kind: 'notFound' }
  /** No VM is placed from it any more. */
  | { readonly kind: 'terminating' }
  | { readonly kind: 'notReady'; readonly status: DiskStatus | undefined }
  | { readonly kind: 'ready'; readonly status: DiskStatus & { readonly reference: string } };

/** @param disk - undefined where no Image or ISO of the name exists */
export function namedDisk(disk: DiskFacts | undefined): NamedDisk {
  if (disk === undefined) return { kind: 'notFound' };
  if (isTerminating(disk)) return { kind: 'terminating' };
  const { status } = disk;
  const { reference } = status ?? {};
  if (reference === undefined || !isTrue(status?.conditions, conditionTypes.ready))
    return { kind: 'notReady', status };
  return { kind: 'ready', status: { ...status, reference } };
}

/**
 * All that VMs and pools which name an Image or ISO read of it, for `leaves`: progress is written every five seconds, and is nothing to them. Why it is
 * not ready their own conditions repeat.
 */
export function readByUsers(disk: DiskFacts): unknown {
  const { kind } = namedDisk(disk);
  const said = kind === 'notReady' ? findCondition(disk.status?.conditions, conditionTypes.ready) : undefined;
  const fields = readFields.map((field) => disk.status?.[field]);
  return [kind, said?.reason, said?.message, ...fields];
}
