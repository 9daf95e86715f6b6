/** What a start goes through: the disk is made, QEMU is started, the guest boots until it is ready. */
export type StartPhase = 'disk' | 'machine' | 'guest';

/** How long each phase of the last start took; one that is under way counts until now. */
export interface StartPhases {
  /** Begins a phase and ends the one before; `disk` begins a new start. */
  enter(phase: StartPhase): void;
  end(): void;
  seconds(): ReadonlyMap<StartPhase, number>;
}

export function createStartPhases(monotonic: () => number = () => performance.now()): StartPhases {
  let done = new Map<StartPhase, number>();
  let current: { readonly phase: StartPhase; readonly since: number } | undefined;

  function end(): void {
    if (current !== undefined) done.set(current.phase, (monotonic() - current.since) / 1000);
    current = undefined;
  }

  return {
    enter(phase) {
      end();
      if (phase === 'disk') done = new Map();
      current = { phase, since: monotonic() };
    },
    end,
    seconds() {
      if (current === undefined) return done;
      return new Map([...done, [current.phase, (monotonic() - current.since) / 1000]]);
    },
  };
}
