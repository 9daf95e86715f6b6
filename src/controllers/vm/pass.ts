import type { Vm } from '../../api/vm.ts';
import type { Observed } from './decide.ts';
import type { RunnerObservation } from './runner/runners.ts';
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
