import type { Pod } from '../../api/core.ts';

/**
 * How long a node may take to prepare volumes and network of a worker pod, in milliseconds. The volumes are an emptyDir and a Secret, and the image is
 * pulled after that: a node that takes longer does not come to it, as where its container runtime still holds what it had begun for the pod before it was restarted.
 */
const unpreparedMs = 300_000;

/** Whether a node that has the pod has not prepared its volumes and network. False where its kubelet does not tell (before Kubernetes 1.29). */
export function isUnprepared({ spec, status }: Pod): boolean {
  if (spec.nodeName === undefined) return false;
  const told = status?.conditions?.find(({ type }) => type === 'PodReadyToStartContainers');
  return told === undefined ? status?.containerStatuses === undefined : told.status === 'False';
}

/**
 * Since when worker pods wait for nodes that do not prepare them. It is counted by this process alone and from when it first saw one: clocks of nodes and
 * kube-apiserver may differ from this one, and a pod that starts in time is not to be taken for one that does not.
 */
export class StartWaits {
  readonly #monotonic: () => number;
  readonly #since = new Map<string, number>();

  /** @param monotonic - milliseconds */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Whether it has waited for so long that another one is to be made. */
  isOver(pod: Pod): boolean {
    const { uid } = pod.metadata;
    if (!isUnprepared(pod)) {
      this.forget(uid);
      return false;
    }
    const now = this.#monotonic();
    const since = this.#since.get(uid) ?? now;
    this.#since.set(uid, since);
    return now - since >= unpreparedMs;
  }

  /** The pod is gone. */
  forget(uid: string): void {
    this.#since.delete(uid);
  }
}
