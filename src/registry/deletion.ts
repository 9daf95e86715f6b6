import { isSvc3Error, type Svc3Error } from '../errors.ts';

/** Whether a registry has understood what it was asked and does not do it, as while it is read-only, or for a tag that must not change. */
export function isDeletionRefused(error: unknown): error is Svc3Error {
  return isSvc3Error(error, 'MethodNotAllowed', 'BadRequest');
}
