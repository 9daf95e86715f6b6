import { isSvc3Error, type Svc3Error } from '../errors.ts';

/** Whether a registry has understood what it was asked and does not do it, as while it is read-only, or for a tag that must not change. */
export function isDeletionRefused(error: unknown): error is Svc3Error {
  return isSvc3Error(error, 'MethodNotAllowed', 'BadRequest');
}

/**
 * Whether a registry says that it never deletes: that is the registry's own error code. One that is read-only for a while (distribution:
 * `storage.maintenance.readonly`) answers 405 without it.
 */
export function deletesNothing(error: unknown): boolean {
  return isSvc3Error(error, 'MethodNotAllowed') && error.message.includes('(UNSUPPORTED');
}
