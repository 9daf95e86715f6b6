import { RunnerFailure } from './failure.ts';
import { quietMs, type Retries } from './retries.ts';
import type { SavedState, StateFile } from './statefile.ts';

export interface CrashCountParts {
  readonly state: Pick<StateFile, 'current'>;
  readonly retries: Retries;
  /** Of this start of the node; empty where nobody knows. */
  readonly bootId: string;
  /** Writes down what is so whether or not it can be. */
  note(change: Partial<SavedState>): Promise<void>;
}

/**
 * The crashes of a guest over the lives of its pod's container. The kernel may kill a container as a whole, for memory: nobody is left then who could
 * count, so the state file says where a guest runs, and the next life of the container finds that it was lost.
 */
export class CrashCount {
  readonly #parts: CrashCountParts;

  constructor(parts: CrashCountParts) {
    this.#parts = parts;
  }

  /** Goes on from what the life before has counted. */
  resume(): void {
    const { retries, state } = this.#parts;
    retries.resume(state.current.crashes ?? 0);
  }

  /**
   * What the guest of the life before has met; undefined where it was taken down, is not to run, goes on from its memory, or went with its node.
   * To be asked before the next guest is started.
   */
  loss(): RunnerFailure | undefined {
    const { powerState, memory, runsOn } = this.#parts.state.current;
    if (powerState !== 'Running' || memory !== undefined) return undefined;
    if (runsOn === undefined || runsOn !== this.#parts.bootId) return undefined;
    const message = "the pod's container ended under the guest (its Last State says why, as OOMKilled)";
    return new RunnerFailure('QemuCrashed', message);
  }

  /** Writes down a crash that has been counted: no guest runs. */
  crashed(): Promise<void> {
    return this.#parts.note({ runsOn: undefined, crashes: this.#parts.retries.crashes });
  }

  /**
   * Writes down that a guest runs; at once, so that the start deadline deletes no VM whose guest has run.
   *
   * @param exited - resolves when its QEMU has ended
   */
  async started(exited: Promise<unknown>): Promise<void> {
    const { retries, bootId } = this.#parts;
    const { crashes } = retries;
    if (crashes > 0) this.#forgetWhenQuiet(exited);
    const runsOn = bootId === '' ? undefined : bootId;
    await this.#parts.note({ guestStarted: true, runsOn, crashes: crashes === 0 ? undefined : crashes });
  }

  /** Writes down that the guest was taken down with its pod or container. */
  async noteEnded(): Promise<void> {
    if (this.#parts.state.current.runsOn !== undefined) await this.#parts.note({ runsOn: undefined });
  }

  #forgetWhenQuiet(exited: Promise<unknown>): void {
    const timer = setTimeout(() => {
      this.#parts.retries.resume(0);
      void this.#parts.note({ crashes: undefined });
    }, quietMs);
    timer.unref();
    void exited.then(() => clearTimeout(timer));
  }
}
