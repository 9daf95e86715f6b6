import { createHash } from 'node:crypto';
import { podNamePrefix } from '../../api/meta.ts';
import type { Vm } from '../../api/vm.ts';

/** Label values and hostnames end at 63 characters, so the pod's name does too. */
const longest = 63;

/** Annotation on VM pods: the settings the pod was made from, should the operator die before they stand in status. */
export const effectiveAnnotation = 'svc3.dev/effective';
/** Annotation on VM pods: resourceVersion of the pull Secret when the pod was made. */
export const pullSecretAnnotation = 'svc3.dev/pull-secret-version';

/** The container of a VM's pod that has the guest. */
export const runnerContainer = 'runner';

/** Names that the pod of a VM may have, the more likely first: that of a waiting guest that it claimed, and its own. */
export function podNamesOf({ metadata, status }: Vm): readonly string[] {
  const own = podNameOf(metadata.name);
  const named = status?.podName;
  return named === undefined || named === own ? [own] : [named, own];
}

/** Name of the pod that is made for a VM (and of its disk's claim): always the same, so that a second one can never exist. */
export function podNameOf(vmName: string): string {
  const name = podNamePrefix + vmName;
  if (name.length <= longest) return name;
  const hash = createHash('sha256').update(vmName).digest('hex').slice(0, 8);
  return `${name.slice(0, longest - hash.length - 1).replace(/[-.]+$/, '')}-${hash}`;
}
