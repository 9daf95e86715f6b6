import type { Pod } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import type { Informer } from '../../kube/types.ts';

/** How long a pod that was made is expected without the cache showing it, in milliseconds. */
const expectationMs = 5_000;

/**
 * The caches with our own writes laid over them: a pass that runs before its predecessor's writes have come back
 * would write them a second time. Only saves writes; nothing depends on it for safety.
 */
export class VmExpectations {
  readonly #vms = new Map<string, Vm>();
  readonly #made = new Map<string, { pod: Pod; at: number }>();
  readonly #deleted = new Set<string>();
  /** When this process made a pod, by the uid of its VM. */
  readonly #startedAt = new Map<string, number>();
  readonly #pods: Informer<Pod>;
  readonly #now: () => number;

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(pods: Informer<Pod>, now: () => number) {
    this.#pods = pods;
    this.#now = now;
    pods.onChange((change) => {
      this.#made.delete(keyOf(change.object));
      if (change.kind === 'deleted') this.#deleted.delete(change.object.metadata.uid ?? '');
    });
  }

  /** The newer one of the cached VM and what our last write returned. */
  vm(cached: Vm): Vm {
    const uid = cached.metadata.uid ?? '';
    const own = this.#vms.get(uid);
    if (own === undefined) return cached;
    if (isNewer(own, cached)) return own;
    this.#vms.delete(uid);
    return cached;
  }

  wroteVm(written: Vm): void {
    this.#vms.set(written.metadata.uid ?? '', written);
  }

  pod(name: string, namespace: string): Pod | undefined {
    const cached = this.#pods.get(name, namespace);
    if (cached !== undefined) return cached;
    const own = this.#made.get(`${namespace}/${name}`);
    return own !== undefined && this.#now() - own.at < expectationMs ? own.pod : undefined;
  }

  madePod(pod: Pod): void {
    const { name = '', namespace = '', ownerReferences = [] } = pod.metadata;
    for (const { uid } of ownerReferences) this.#startedAt.set(uid, this.#now());
    // The watch can be faster than the reply.
    if (this.#pods.get(name, namespace) === undefined) this.#made.set(keyOf(pod), { pod, at: this.#now() });
  }

  /** Milliseconds since this process made the VM's last pod; Infinity where another one did. */
  startAgeMs(vmUid: string): number {
    const at = this.#startedAt.get(vmUid);
    return at === undefined ? Infinity : this.#now() - at;
  }

  deletedPod(pod: Pod): void {
    this.#made.delete(keyOf(pod));
    const cached = this.#pods.get(pod.metadata.name ?? '', pod.metadata.namespace);
    if (cached?.metadata.uid === pod.metadata.uid) this.#deleted.add(pod.metadata.uid ?? '');
  }

  isDeleted(pod: Pod): boolean {
    return this.#deleted.has(pod.metadata.uid ?? '');
  }

  forget(vmUid: string): void {
    this.#vms.delete(vmUid);
    this.#startedAt.delete(vmUid);
  }
}

function keyOf({ metadata }: Pod): string {
  return `${metadata.namespace ?? ''}/${metadata.name ?? ''}`;
}

/** resourceVersions of one resource are numbers that grow (Kubernetes 1.35: comparable resource versions). */
function isNewer(a: Vm, b: Vm): boolean {
  const own = a.metadata.resourceVersion ?? '0';
  const cached = b.metadata.resourceVersion ?? '0';
  return own.length === cached.length ? own > cached : own.length > cached.length;
}
