import { isSvc3Error, type Svc3Error } from '../errors.ts';
import { isOfWebhook } from '../kube/errors.ts';

/** What somebody decided, in contrast to what failed: Pod Security, quota, LimitRange, webhooks, validation. */
export function isRefusal(error: unknown): error is Svc3Error {
  return (
    isSvc3Error(
      error,
      'Forbidden',
      'Invalid',
      'BadRequest',
      'NotFound',
      'NotAcceptable',
      'MethodNotAllowed',
      'Gone',
    ) ||
    (isSvc3Error(error, 'InternalError') && isOfWebhook(error))
  );
}
