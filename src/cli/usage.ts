import { Svc3Error } from '../errors.ts';

/** Bad usage: exit code 2, one line. */
export function usageError(message: string): Svc3Error {
  return new Svc3Error('BadRequest', message);
}
