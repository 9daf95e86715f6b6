import type { Pod } from '../../api/core.ts';
import type { RunnerState } from '../../api/runner.ts';
import type { EffectiveSettings, Vm } from '../../api/vm.ts';
import type { Observed } from './decide.ts';
import type { RunnerObservation } from './status/report.ts';
import type { StatusDraft } from './status/statusdraft.ts';

/** One pass over one VM. */
export interface Pass {
  /** `namespace/name` of the VM. */
  readonly key: string;
  readonly observed: Observed;
  /**
   * The status as far as the pass has found it out. It is written when the pass ends, also when it ends with a failure;
   * undefined: nothing is said.
   */
  status: StatusDraft | undefined;
  /** What its runner has said, where the pass asked. */
  runner?: RunnerObservation | undefined;
  /** The VM as the pass has written it, its status apart; undefined: it is as it was observed. */
  written?: Vm;
}

/** A part that remembers something of VMs, by their UID; all of it is lost with the process. */
export interface VmMemory {
  /** The VM is gone. */
  forget(vmUid: string): void;
}

/** How the guest is to be started when that is due. */
export interface BootTerms {
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

/** The talk with the runners, as a pass uses it. */
export interface Runners extends VmMemory {
  /** Tells the runner whose its guest is now, beside the pass; the same VM may do so again. */
  claim(key: string, vm: Vm, pod: Pod, effective: EffectiveSettings): ClaimAnswer;
  observe(key: string, vm: Vm, pod: Pod, boot?: BootTerms): RunnerObservation | undefined;
  /**
   * What the runner of the pod has said just now. Where it has not, it is asked beside the pass, the answer wakes the VM,
   * and this is undefined.
   */
  recent(key: string, vm: Vm, pod: Pod): RunnerState | undefined;
  /** Shuts the guest down, once, beside the pass. Returns whether that is over, or cannot be had. */
  isShutDown(key: string, vm: Vm, pod: Pod): boolean;
}
