import type { Pod } from '../../../api/core.ts';
import type { PowerAction, RunnerState } from '../../../api/runner.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { VmMemory } from '../vmmemory.ts';
import type { DiskGrowth } from './diskgrowth.ts';
import type { RevertHold } from './power.ts';

/** What is known of a pod's runner, from asking it. */
export interface RunnerObservation {
  readonly state: RunnerState | undefined;
  /** Readiness of the pod when it was asked: an answer from before the last flip is old. */
  readonly podReady: boolean;
  readonly fingerprint: string | undefined;
  /** When the runner that has answered was started; undefined before it has. */
  readonly startedAt?: string | undefined;
  /** It has shown another certificate than the known one for too long to be one that a moved pod has left its address to; `error` says so. */
  readonly isRefused?: boolean;
  /** The verb that is being carried out. */
  readonly verb: PowerAction | undefined;
  /** The settings that its last start was told, where they are known. */
  readonly booted?: EffectiveSettings | undefined;
  /** Whether it has to be asked again for what applies at once: no event tells of that. */
  readonly isPending: boolean;
  /** What became of the growth of the disk that it was last asked for. */
  readonly growth?: DiskGrowth | undefined;
  /** Why it could not be asked, or why the last verb failed. */
  readonly error: string | undefined;
}

/** How the guest is to be started, and its disk reverted, when that is due. */
export interface BootTerms {
  /** A revert that is asked for is not carried out yet. */
  readonly revertHold?: Pick<RevertHold, 'needsGuest'> | undefined;
  /** It is started in another pod: the runner of this one is not asked to. */
  readonly isHeld?: boolean;
  /** The guest is shut down before that: the end of its pod would suspend it. */
  readonly isStoppedFirst?: boolean;
  /** The claim is not large enough yet for the size that the disk is to have. */
  readonly isDiskHeld?: boolean;
  /** Settings that the runner has not been told yet. */
  readonly settings?: EffectiveSettings | undefined;
}

/** What the runner of a guest that waited says to its claim. */
export type ClaimAnswer =
  | { readonly kind: 'claimed'; readonly runner: RunnerObservation }
  /** The answer wakes the VM. `message`: why it has not been told yet. */
  | { readonly kind: 'asking'; readonly message: string | undefined }
  /** It never will be this VM's. */
  | { readonly kind: 'refused'; readonly message: string };

/** The runners of VMs, as a pass uses them. */
export interface Runners extends VmMemory {
  /** Tells the runner whose its guest is now, beside the pass; the same VM may do so again. */
  claim(key: string, vm: Vm, pod: Pod, effective: EffectiveSettings): ClaimAnswer;
  /**
   * For how long `claim` has been tried in vain, in milliseconds, without anybody there to whom anything could have been sent; undefined where somebody
   * was there, and while it is being tried.
   */
  unmetMs(vm: Vm, pod: Pod): number | undefined;
  observe(key: string, vm: Vm, pod: Pod, boot?: BootTerms): RunnerObservation | undefined;
  /**
   * What the runner of the pod has said just now. Where it has not, it is asked beside the pass, the answer wakes the VM,
   * and this is undefined.
   */
  recent(key: string, vm: Vm, pod: Pod): RunnerState | undefined;
  /**
   * Shuts the guest down beside the pass: once, and once more when the pod is ending by then. Returns whether that is over, or no runner can be asked;
   * else the answer wakes the VM.
   */
  shutDown(key: string, vm: Vm, pod: Pod): boolean;
}
