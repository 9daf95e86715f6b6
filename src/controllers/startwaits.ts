import type { Node, Pod } from '../api/core.ts';

/**
 * How long a node may take to prepare volumes and network of a pod that mounts no claim, in milliseconds. The volumes are emptyDirs, Secrets and the like,
 * and images are pulled after that: a node that takes longer does not come to it, as where it has no more addresses for pods, or where its container runtime
 * still holds what it had begun for the pod before it was restarted.
 */
export const unpreparedMs = 300_000;

/** The first minor version of Kubernetes 1 whose kubelets say that a pod is prepared before they pull its images (kubernetes/kubernetes#134660). */
const firstToSay = 36;

/** A pod that a node has, and that its kubelet does not say to be prepared. */
export interface Unprepared {
  /** For how long this process has seen it so, in milliseconds. */
  readonly forMs: number;
  /** Whether its images are not being pulled: kubelets before 1.36 say that a pod is prepared only once they have them. */
  readonly isCertain: boolean;
}

/** Whether a node that has the pod does not say that it has prepared its volumes and network. False where its kubelet never tells (a feature gate). */
export function isUnprepared({ spec, status }: Pod): boolean {
  if (spec.nodeName === undefined) return false;
  const told = saidOf(status);
  return told === undefined ? isUntold(status) : told === 'False';
}

function saidOf(status: Pod['status']): string | undefined {
  return status?.conditions?.find(({ type }) => type === 'PodReadyToStartContainers')?.status;
}

/** The first thing that a kubelet does with a pod is to write its status. */
function isUntold(status: Pod['status']): boolean {
  return status?.containerStatuses === undefined;
}

function isCertain({ status }: Pod, node: Node | undefined): boolean {
  if (saidOf(status) === undefined) return isUntold(status);
  const version = node?.status?.nodeInfo?.kubeletVersion ?? '';
  const [, major, minor] = /^v?(\d+)\.(\d+)/.exec(version) ?? [];
  return Number(major) > 1 || Number(minor) >= firstToSay;
}

/**
 * Since when pods wait for nodes that do not prepare them. It is counted by this process alone and from when it first saw one: clocks of nodes and
 * kube-apiserver may differ from this one, and a pod that starts in time is not to be taken for one that does not.
 */
export class StartWaits {
  readonly #monotonic: () => number;
  readonly #since = new Map<string, number>();

  /** @param monotonic - milliseconds */
  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /**
   * @param node - the pod's; undefined where it is not known
   * @returns undefined where its node has prepared it
   */
  of(pod: Pod, node: Node | undefined): Unprepared | undefined {
    const { uid } = pod.metadata;
    if (!isUnprepared(pod)) {
      this.forget(uid);
      return undefined;
    }
    const now = this.#monotonic();
    const since = this.#since.get(uid) ?? now;
    this.#since.set(uid, since);
    return { forMs: now - since, isCertain: isCertain(pod, node) };
  }

  /** The pod is gone. */
  forget(uid: string): void {
    this.#since.delete(uid);
  }
}
