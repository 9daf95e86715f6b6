import type { Node, PersistentVolumeClaim, Pod } from '../../../api/core.ts';
import type { RunnerState } from '../../../api/runner.ts';
import type { Vm } from '../../../api/vm.ts';
import { mayKeepDisk } from '../../../api/whendeleted.ts';
import { isDiskOf, isNamesakesDisk } from './claim.ts';
import { isPodOf } from './ownpod.ts';
import { isLost, isPodReady, isRunnerUp, runnerStatus } from './podstate.ts';

/** Whether a guest has ever run. `unknown` is no leave to delete it: something that may know did not answer. */
export type Started = 'yes' | 'no' | 'unknown';

/** Everything that can tell. Our own status alone cannot: it is written late, or not at all while no operator runs. */
export interface StartEvidence {
  readonly vm: Vm;
  /** The pod of the VM's pod name, whoever made it. */
  readonly pod: Pod | undefined;
  /** The pod's node. */
  readonly node: Node | undefined;
  /** The claim that has the VM's disk, or would, whoever made it. */
  readonly claim: PersistentVolumeClaim | undefined;
  /** What the pod's runner says now; undefined where it was not asked or did not answer. */
  readonly runner: RunnerState | undefined;
}

/** Whether the guest of a VM has ever run. Pure. */
export function hasStarted({ vm, pod, node, claim, runner }: StartEvidence): Started {
  // A power state is only ever written once the runner has had QEMU running, and it stays.
  if (vm.status?.powerState !== undefined) return 'yes';
  if (pod !== undefined && isPodOf(pod, vm)) {
    const byPod = startedInPod(pod);
    if (byPod === 'yes') return 'yes';
    const said = runner === undefined || !isRunnerUp(pod) ? undefined : startedByRunner(runner, pod);
    // What it has written down lies on the disk itself, so it also speaks for the pods before.
    if (said === 'yes' || (said === 'no' && runner?.guestStarted === false)) return said;
    // The kubelet of a lost node may have started the guest and have told nobody.
    if (said !== 'no' && (byPod === 'unknown' || isLost(node))) return 'unknown';
  }
  return isUsed(claim, vm) ? 'unknown' : 'no';
}

/** What the kubelet has written about the pod; a container that has run is known to its runner alone. */
export function startedInPod(pod: Pod): Started {
  if (isPodReady(pod) || wasPodReady(pod)) return 'yes';
  return hasContainerRun(pod) ? 'unknown' : 'no';
}

/**
 * The kubelet sets Ready to False with the pod's start time and moves the time only when the status flips: a later one
 * means that it has been True.
 */
function wasPodReady({ status }: Pod): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const since = ready?.lastTransitionTime ?? undefined;
  if (since === undefined || status?.startTime === undefined) return false;
  return Date.parse(since) > Date.parse(status.startTime);
}

function hasContainerRun(pod: Pod): boolean {
  const status = runnerStatus(pod);
  if (status === undefined) return pod.status?.phase === 'Running';
  const { state, lastState, restartCount, started } = status;
  const ended = state?.terminated ?? lastState?.terminated;
  return state?.running !== undefined || ended !== undefined || restartCount > 0 || started === true;
}

/** A runner that neither begins nor has failed has had its guest running, or keeps it stopped because that was asked for. */
export function startedByRunner(state: RunnerState, pod: Pod): Started {
  if (state.powerState !== 'Failed' && state.reason !== 'Starting') return 'yes';
  if (state.guestStarted !== undefined) return state.guestStarted ? 'yes' : 'no';
  // A runner from before `guestStarted`: it counts crashes of this life of its container only.
  if (state.restarts > 0) return 'yes';
  return (runnerStatus(pod)?.restartCount ?? 0) > 0 ? 'unknown' : 'no';
}

/** A volume that a pod before this one may have written to. A VM that was restored from a backup has another UID, and its claim the one of before. */
function isUsed(claim: PersistentVolumeClaim | undefined, vm: Vm): boolean {
  if (claim?.status?.phase !== 'Bound') return false;
  if (isDiskOf(claim, vm)) return true;
  return vm.spec.disk?.claimName === undefined && mayKeepDisk(vm) && isNamesakesDisk(claim, vm);
}
