import type { Pod } from '../../api/core.ts';
import type { Submitted } from '../../api/object.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmMemory } from './vmmemory.ts';
import { claimNameOf, isPersistent } from './facts/claim.ts';
import { buildPod, type PodPlacement } from './pod/pod.ts';
import { hasMemory } from './resolve/imagememory.ts';
import type { Resolved, ResolveSources } from './resolve/resolve.ts';
import type { VmSettings } from './settings.ts';
import type { StartTraces } from './starts/starttraces.ts';

export interface NextPodParts {
  readonly sources: ResolveSources;
  readonly settings: VmSettings;
  /** Where starts are traced. */
  readonly starts: StartTraces | undefined;
  /** Public halves of the control keys, for the pods' annotation. */
  controlKeys(): string;
  /** Groups of /dev/kvm on a node; without one on all nodes. */
  kvmGroups(node: string | undefined): readonly number[];
  /** resourceVersion of the pull Secret of a namespace. */
  pullSecretVersion(namespace: string): string | undefined;
}

/** The pods that VMs get: what goes into them beside the VM, and how long it has waited. */
export class NextPod implements VmMemory {
  readonly #parts: NextPodParts;
  /** Since when VMs have waited for their next pod, in milliseconds since 1970, by their UID. */
  readonly #waitsSince = new Map<string, number>();

  constructor(parts: NextPodParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    this.#waitsSince.delete(vmUid);
  }

  /** The VM has no pod: it waits for one from now on. */
  noteWaiting(vm: Vm): void {
    const { uid } = vm.metadata;
    if (!this.#waitsSince.has(uid)) this.#waitsSince.set(uid, waitsSince(vm, Date.now()));
  }

  /** @param madeAtMs - now, in milliseconds since 1970 */
  of(vm: Vm, resolved: Resolved, placement: PodPlacement, madeAtMs: number): Submitted<Pod> {
    const { settings, controlKeys, kvmGroups, pullSecretVersion, sources, starts } = this.#parts;
    const { node, accelerator } = placement;
    return buildPod({
      vm,
      effective: resolved.effective,
      placement,
      settings,
      controlKeys: controlKeys(),
      kvmGroups: accelerator === 'kvm' ? kvmGroups(node) : [],
      pullSecretVersion: pullSecretVersion(vm.metadata.namespace),
      isWarm: hasMemory(vm.metadata.namespace, resolved.effective, sources),
      claimName: isPersistent(resolved.effective) ? claimNameOf(vm) : undefined,
      traceparent: starts?.traceparent(vm),
      times: { waitedSinceMs: this.#waitsSince.get(vm.metadata.uid) ?? madeAtMs, madeAtMs },
    });
  }
}

/**
 * A new VM waits since it was made, whoever led then; that is known in whole seconds, and this process more exactly in the first of them. Any
 * other one waits since this process sees that it has no pod.
 */
function waitsSince({ metadata, status }: Vm, nowMs: number): number {
  const createdMs = Date.parse(metadata.creationTimestamp ?? '');
  return status?.effective === undefined && nowMs - createdMs >= 1_000 ? createdMs : nowMs;
}
