import type { Image, ImageStatus, Iso } from '../../api/image.ts';
import { isTerminating } from '../../api/owner.ts';
import { conditionTypes } from '../../api/reasons.ts';
import { isTrue } from '../../controller/conditions.ts';

/** The state of an Image or ISO for a VM or VMConfig that names it. */
export type NamedDisk =
  | { readonly kind: 'notFound' }
  /** No VM is placed from it any more. */
  | { readonly kind: 'terminating' }
  | { readonly kind: 'notReady'; readonly status: ImageStatus | undefined }
  | { readonly kind: 'ready'; readonly status: ImageStatus & { readonly reference: string } };

/** @param disk - undefined where no Image or ISO of the name exists */
export function namedDisk(disk: Image | Iso | undefined): NamedDisk {
  if (disk === undefined) return { kind: 'notFound' };
  if (isTerminating(disk)) return { kind: 'terminating' };
  const { status } = disk;
  const { reference } = status ?? {};
  if (reference === undefined || !isTrue(status?.conditions, conditionTypes.ready))
    return { kind: 'notReady', status };
  return { kind: 'ready', status: { ...status, reference } };
}
