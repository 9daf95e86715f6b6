import type { Pod } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import { keyOf } from '../../controller/controller.ts';
import { createExpectations } from '../../controller/expectations.ts';
import type { Informer } from '../../kube/types.ts';
import type { VmMemory } from './vmmemory.ts';

/** How long a write is expected without the cache showing it, in milliseconds. */
const expectedMs = 5_000;

/**
 * The caches of VMs and pods with what this process has written and they do not show yet: a pass that runs before its predecessor's writes have come
 * back would write them a second time. Only saves writes; nothing depends on it for safety.
 */
export class VmExpectations implements VmMemory {
  /** By UID. They end by themselves: a VM that is gone may be in the cache for a while. */
  readonly vms = createExpectations<Vm>(undefined, expectedMs);
  readonly #made = createExpectations<Pod>(undefined, expectedMs);
  /** UIDs of pods whose deletion was asked for, until they are gone: they run to the end of their grace period. */
  readonly #deleted = new Set<string>();
  /** When this process made a pod, by the UID of its VM. */
  readonly #startedAt = new Map<string, number>();
  readonly #pods: Informer<Pod>;
  readonly #now: () => number;

  /** `now`: milliseconds of a clock that never jumps. */
  constructor(pods: Informer<Pod>, now: () => number) {
    this.#pods = pods;
    this.#now = now;
    pods.onChange(({ kind, object }) => {
      this.#made.observe(keyOf(object), object);
      if (kind === 'deleted') this.#deleted.delete(object.metadata.uid);
    });
  }

  /** The newer one of the cached VM and what our last write returned; undefined where that was the end of it. */
  vm(cached: Vm): Vm | undefined {
    return this.vms.current(cached.metadata.uid, cached);
  }

  wroteVm(written: Vm): void {
    this.vms.wrote(written.metadata.uid, written);
  }

  pod(name: string, namespace: string): Pod | undefined {
    return this.#made.current(`${namespace}/${name}`, this.#pods.get(name, namespace));
  }

  /** A change of a pod that another made. */
  wrotePod(pod: Pod): void {
    this.#made.wrote(keyOf(pod), pod);
  }

  madePod(pod: Pod): void {
    for (const { uid } of pod.metadata.ownerReferences ?? []) this.#startedAt.set(uid, this.#now());
    this.#made.wrote(keyOf(pod), pod);
  }

  /** Milliseconds since this process made the VM's last pod; Infinity where another one did. */
  startAgeMs(vmUid: string): number {
    const at = this.#startedAt.get(vmUid);
    return at === undefined ? Infinity : this.#now() - at;
  }

  deletedPod(pod: Pod): void {
    this.#made.forget(keyOf(pod));
    const cached = this.#pods.get(pod.metadata.name, pod.metadata.namespace);
    if (cached?.metadata.uid === pod.metadata.uid) this.#deleted.add(pod.metadata.uid);
  }

  isDeleted(pod: Pod): boolean {
    return this.#deleted.has(pod.metadata.uid);
  }

  forget(vmUid: string): void {
    this.#startedAt.delete(vmUid);
  }
}
