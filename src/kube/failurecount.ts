import { isSvc3Error } from '../errors.ts';

/** What a reflector does: a whole list, then a watch from there. */
export type Step = 'list' | 'watch';

/**
 * Failures in a row of a reflector, by what has failed. A list that succeeds says nothing of the watch after it: where only lists work,
 * they follow each other ever more slowly, for they are dear.
 */
export class FailureCount {
  readonly #failures: Record<Step, number> = { list: 0, watch: 0 };
  #mayListAtOnce = true;

  listed(): void {
    this.#failures.list = 0;
  }

  /** A watch has brought something, or lived long. */
  watched(): void {
    this.#failures.watch = 0;
    this.#mayListAtOnce = true;
  }

  /** How often this has failed in a row by now. 0: what follows need not wait. */
  failed(step: Step, error?: unknown): number {
    this.#failures[step] += 1;
    // A watch is answered with 410 once etcd has compacted its version, as after an outage: a new list mends that, so it follows at
    // once. One that has mended nothing does not, nor one that fails itself.
    if (step === 'watch' && this.#mayListAtOnce && isSvc3Error(error, 'Expired', 'Gone')) {
      this.#mayListAtOnce = false;
      this.#failures.watch = 0;
    }
    return this.#failures[step];
  }
}
