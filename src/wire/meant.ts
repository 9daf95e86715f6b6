import type { KubeObject, Resource, StoredMeta } from '../api/object.ts';
import { Svc3Error } from '../errors.ts';

/** Who asks for something to be done to an object may say which one: names are given anew. */

/**
 * @param meant - UID of the object that is meant; undefined: whichever has the name
 * @throws Svc3Error Conflict where it is another one
 */
export function requireMeant<T extends KubeObject>(
  { group, kind, plural }: Resource<T>,
  { metadata: { name, uid } }: { readonly metadata: StoredMeta },
  meant: string | undefined,
): void {
  if (meant === undefined || meant === uid) return;
  throw new Svc3Error('Conflict', `${kind} ${name} is another one: its UID is ${uid} and not ${meant}`, {
    details: { group, kind: plural, name },
  });
}

/** What makes kube-apiserver refuse (409) to delete or patch another one: options of a deletion, `metadata` of a merge patch. */
export function preconditionOf(meant: string | undefined): { readonly uid: string } | undefined {
  return meant === undefined ? undefined : { uid: meant };
}
