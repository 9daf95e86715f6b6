import type { Pod } from '../../../api/core.ts';
import { annotations, labels } from '../../../api/meta.ts';
import { controllerOf, isOwnedBy } from '../../../api/owner.ts';
import type { RunnerSpecInput } from '../../../api/runner.ts';
import type { Vm } from '../../../api/vm.ts';
import { podNameOf } from '../names.ts';

/** What tells of a VM which pod is its own. */
export interface PodHolder {
  readonly metadata: Pick<Vm['metadata'], 'name' | 'uid'>;
  readonly status?: Pick<NonNullable<Vm['status']>, 'podName'>;
}

/**
 * Whether a pod is this very VM's: by its owner reference, or, where `kubectl delete --cascade=orphan` of the VM has had the garbage collector take that
 * away, by what svc3 has written on the pod. Its guest runs on then, and has the VM's disk.
 */
export function isPodOf(pod: Pod, vm: PodHolder): boolean {
  return controllerOf(pod) === undefined ? isOrphanOf(pod, vm) : isOwnedBy(pod, vm);
}

/**
 * The label comes first: nobody but svc3 writes annotations `svc3.dev/*` of a pod that has it (policy `svc3-own-pods`). A name alone proves nothing, since
 * there may have been another VM of it. A guest that waited in a pool was told no UID; its name is used once, and only the operator writes it into a status.
 */
function isOrphanOf({ metadata }: Pod, { metadata: { name, uid }, status }: PodHolder): boolean {
  if (metadata.labels?.[labels.vm] !== name) return false;
  if (metadata.name !== podNameOf(name)) return metadata.name === status?.podName;
  return toldUid(metadata.annotations?.[annotations.runnerSpec]) === uid;
}

/** UID of the VM that the pod was made for. */
function toldUid(runnerSpec: string | undefined): unknown {
  try {
    return (JSON.parse(runnerSpec ?? '') as Partial<RunnerSpecInput> | null)?.vm?.uid;
  } catch {
    return undefined;
  }
}

/**
 * The pod of a VM among those that have a name its pod may have: its own before another's. A guest that it chose and did not get is the pod of
 * the VM that was first, for as long as that lives.
 *
 * @param named - in the order of `podNamesOf`
 */
export function podAmong(vm: Vm, named: readonly (Pod | undefined)[]): Pod | undefined {
  const there = named.filter((pod) => pod !== undefined);
  return there.find((pod) => isPodOf(pod, vm)) ?? there[0];
}
