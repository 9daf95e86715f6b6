import { isSvc3Error, Svc3Error } from '../../errors.ts';
import { failedRequestOf } from '../../registry/transport.ts';

const ofLogin =
  '; a cluster administrator adds or replaces the credential of this namespace for it: svc3 regcred add';

/**
 * Work with the store or another registry, for somebody who asks the api.
 *
 * @throws Invalid where the registry denies it to the namespace's credential (401, 403) or to everybody (405); else as the work
 */
export async function withStore<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw asStoreRefusal(error);
  }
}

/**
 * What work with a registry failed with, as the api may answer it. A registry's 401 is not the api's own: clients would take their own
 * login for refused, and the web page would sign its user out.
 */
export function asStoreRefusal<E>(error: E): E | Svc3Error {
  const isDenial = isSvc3Error(error, 'Unauthorized', 'Forbidden', 'MethodNotAllowed');
  if (!isDenial || failedRequestOf(error) === undefined) return error;
  const hint = error.reason === 'MethodNotAllowed' ? '' : ofLogin;
  return new Svc3Error('Invalid', `${error.message}${hint}`, { cause: error });
}
