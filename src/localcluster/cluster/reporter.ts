/** When a supervisor writes its report (state.ts). */
export interface Reporter {
  /** Writes how things are now; nothing after the last one has been asked for. */
  report(): Promise<void>;
  /** The last one. It never fails: a full disk that keeps it from being written is no reason to go on. */
  last(): Promise<void>;
}

/** One report after the other: a node that goes down ends several components at once, and the last report has to stay. */
export function createReporter(write: (isLast: boolean) => Promise<void>): Reporter {
  let written: Promise<void> = Promise.resolve();
  let isOver = false;
  function afterOthers(next: () => Promise<void>): Promise<void> {
    const result = written.then(next);
    written = result.catch(() => undefined);
    return result;
  }
  return {
    report: () => afterOthers(async () => (isOver ? undefined : write(false))),
    async last() {
      isOver = true;
      await afterOthers(() => write(true)).catch(() => undefined);
    },
  };
}
