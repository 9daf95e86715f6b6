import { isSvc3Error, messageOf } from '../errors.ts';

/** What somebody decided, in contrast to what failed: Pod Security, quota, LimitRange, webhooks, validation. */
export function isRefusal(error: unknown): boolean {
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
    (isSvc3Error(error, 'InternalError') && /webhook/.test(messageOf(error)))
  );
}
