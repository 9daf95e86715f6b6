import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import { needsAnotherPod } from '../../api/vmchanges.ts';
import { isPersistent } from './facts/claim.ts';
import { isAsleep } from './facts/hibernation.ts';
import type { ClaimRoom } from './pod/claimgrowth.ts';
import type { Resolved } from './resolve/resolve.ts';
import { isBoot, powerStep, type RevertHold } from './runner/power.ts';
import type { RunnerObservation } from './runner/runners.ts';

/** What a pass has found out of a VM whose pod lives. */
export interface KeptFacts {
  readonly vm: Vm;
  readonly effective: EffectiveSettings;
  /** Fields whose changes wait for the guest's next start. */
  readonly waiting: readonly string[];
  /** What its runner has answered to this pass; undefined where there is none to be asked. */
  readonly runner: RunnerObservation | undefined;
  /** Why a revert that is asked for is not carried out yet. */
  readonly revertHold?: RevertHold | undefined;
  /** Why no other pod is made yet (`holdFor`). */
  readonly dataHold: string | undefined;
}

/** What becomes of the pod. */
export type Kept =
  /** It ends: the guest's memory is on its claim. */
  | { readonly kind: 'release' }
  /** It ends, and another one is made, in which the guest is started. */
  | { readonly kind: 'newPod'; readonly message: string }
  /** `startsAfter`: what the start of the guest waits for; `waitsForSave`: that is an image, of which no event of the VM tells. */
  | { readonly kind: 'stay'; readonly startsAfter: string | undefined; readonly waitsForSave: boolean };

/** Whether the next start of the guest needs another pod. */
export function needsNewPod({ effective, waiting = [] }: Pick<Resolved, 'effective' | 'waiting'>): boolean {
  return isPersistent(effective) && waiting.some((field) => needsAnotherPod(field, { isPersistent: true }));
}

/** Why no other pod is made yet. A volume that takes long is not waited for: some grow only while no pod has them. */
export function holdFor({ refusal, delay, againMs }: ClaimRoom): string | undefined {
  if (refusal !== undefined) return refusal;
  const isUnderway = againMs !== undefined && delay === undefined;
  return isUnderway ? 'the volumes of its data disks grow: the guest is started after that' : undefined;
}

/** Whether it matters if an image is being made of the disk: only then kube-apiserver is asked for images. */
export function dependsOnImages(facts: KeptFacts): boolean {
  return sleepsOnDisk(facts) || movesNow(facts);
}

/**
 * Pure: what becomes of the pod.
 *
 * @param isBeingSaved - whether an image is being made of the disk, which is in the pod until the image is in the store; false where it does not matter
 */
export function decideKept(facts: KeptFacts, isBeingSaved: boolean): Kept {
  if (sleepsOnDisk(facts) && !isBeingSaved) return { kind: 'release' };
  const { waiting, dataHold } = facts;
  const waitsForSave = movesNow(facts) && isBeingSaved;
  if (waitsForSave) {
    const startsAfter = 'an image is being made of its disk: the guest is started after that';
    return { kind: 'stay', startsAfter, waitsForSave };
  }
  if (movesNow(facts) && dataHold === undefined)
    return {
      kind: 'newPod',
      message: `the guest is started in another pod, with another ${waiting.join(', ')}`,
    };
  return { kind: 'stay', startsAfter: bootIsDue(facts) ? dataHold : undefined, waitsForSave };
}

function sleepsOnDisk({ vm, runner }: KeptFacts): boolean {
  const { state, verb } = runner ?? {};
  const isOnDisk = state?.powerState === 'Suspended' && state.suspendKind === 'Disk' && verb === undefined;
  return isOnDisk && isAsleep(vm);
}

/** Whether the guest is to be started now, in another pod. */
function bootIsDue(facts: KeptFacts): boolean {
  const { vm, runner, revertHold } = facts;
  if (runner?.state === undefined || runner.verb !== undefined) return false;
  return needsNewPod(facts) && isBoot(powerStep(vm, runner.state, revertHold));
}

/** Whether the pod may end for that: with a guest that runs it would suspend it, and it is shut down first. */
function movesNow(facts: KeptFacts): boolean {
  const { effective, runner } = facts;
  const isSuspendedByEnd = effective.onEviction === 'Suspend' && runner?.state?.powerState === 'Running';
  return bootIsDue(facts) && !isSuspendedByEnd;
}
