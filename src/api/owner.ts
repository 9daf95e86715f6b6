import type { KubeObject, OwnerReference } from './object.ts';

/** Whether the controller of `object` is this very owner, told by its UID: one of the same name before it is another. */
export function isOwnedBy(object: KubeObject, owner: KubeObject): boolean {
  const uid = owner.metadata?.uid;
  return uid !== undefined && controllerOf(object)?.uid === uid;
}

/** The one owner that acts on an object; kube-apiserver sees to it that there is at most one. */
export function controllerOf({ metadata }: KubeObject): OwnerReference | undefined {
  return metadata?.ownerReferences?.find(({ controller }) => controller === true);
}

/** It is on its way out, and nobody's any more. */
export function isTerminating({ metadata }: KubeObject): boolean {
  return metadata?.deletionTimestamp !== undefined;
}
