import { isSvc3Error } from '../../src/errors.ts';

/**
 * Whether a status could not be written because its pod has gone. Where another pod has its name by now, kube-apiserver refuses the
 * UID that the write names: 422, not 409.
 */
export function isPodGone(error: unknown): boolean {
  if (isSvc3Error(error, 'NotFound', 'Conflict')) return true;
  const causes = isSvc3Error(error, 'Invalid') ? (error.details?.causes ?? []) : [];
  return causes.length > 0 && causes.every(({ field }) => field === 'metadata.uid');
}
