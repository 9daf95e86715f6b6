import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../api/object.ts';
import type { Change } from '../kube/types.ts';

/**
 * Whether a change left the spec of an object as it was: only its status or metadata changed, so controllers that read nothing but the
 * spec of this kind have nothing to do. For kinds with a status subresource: kube-apiserver counts `metadata.generation` up when
 * the spec changes, and when an object with finalizers is deleted (API conventions).
 */
export function leavesSpec<T extends KubeObject>(change: Change<T>): boolean {
  if (change.kind !== 'updated') return false;
  const { generation } = change.object.metadata ?? {};
  return generation !== undefined && change.old.metadata?.generation === generation;
}

/**
 * Whether a change left all that `read` takes of an object as it was, so that those who read nothing else of it have nothing to do. Of an object that comes
 * or goes nothing is left.
 */
export function leaves<T extends KubeObject>(change: Change<T>, read: (object: T) => unknown): boolean {
  return change.kind === 'updated' && isDeepStrictEqual(read(change.old), read(change.object));
}
