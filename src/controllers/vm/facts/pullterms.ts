import type { Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import { pullSecretAnnotation } from '../names.ts';
import { createFailure, pullFailure } from './podstate.ts';
import { startedInPod } from './started.ts';

/** What a pod that is made now is pulled with. */
export interface PullTerms {
  /** resourceVersion of the namespace's pull Secret; undefined where there is none. */
  readonly pullSecretVersion: string | undefined;
  /** What its runner image is pulled with (`pullsWithText`). */
  readonly pullsWith: string;
}

/**
 * Why a pod cannot pull that would be made with other terms by now; undefined for any other. The kubelet's backoff between pulls grows to five minutes, and a
 * pod has no other image, policy or Secret than it was made with. One of a version before says nothing of these, and was made with others. A pod that
 * pulls again, for a runner that ended or a node that rebooted, keeps the disk of its guest.
 */
export function outdatedPull(pod: Pod, { pullSecretVersion, pullsWith }: PullTerms): string | undefined {
  if (startedInPod(pod) !== 'no') return undefined;
  const { [pullSecretAnnotation]: version, [annotations.pullsWith]: terms } = pod.metadata.annotations ?? {};
  const isOutdated = terms !== pullsWith;
  const hasNewSecret = pullSecretVersion !== undefined && version !== pullSecretVersion;
  const unpulled = isOutdated || hasNewSecret ? pullFailure(pod) : undefined;
  return unpulled ?? (isOutdated ? createFailure(pod) : undefined);
}
