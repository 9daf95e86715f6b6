import type { RunnerState } from '../../api/runner.ts';

/** What a start goes through: the disk is made, QEMU is started, the guest boots until it is ready. */
export type StartPhase = 'disk' | 'machine' | 'guest';

/** How long each phase of the last start took; one that is under way counts until now. */
export interface StartPhases {
  /** Begins a phase and ends the one before; `disk` begins a new start. */
  enter(phase: StartPhase): void;
  end(): void;
  seconds(): ReadonlyMap<StartPhase, number>;
  /** The life in this pod does not begin with a boot. */
  beginWithout(): void;
  /** The first start and its phases that are over; undefined where there was none, and once another has begun. */
  first(): RunnerState['firstStart'];
}

export function createStartPhases(
  monotonic: () => number = () => performance.now(),
  wall: () => number = () => Date.now(),
): StartPhases {
  let done = new Map<StartPhase, number>();
  let current: { readonly phase: StartPhase; readonly since: number } | undefined;
  let starts = 0;
  let startedAtMs = 0;

  function end(): void {
    if (current !== undefined) done.set(current.phase, (monotonic() - current.since) / 1000);
    current = undefined;
  }

  function begin(): void {
    done = new Map();
    starts += 1;
    startedAtMs = wall();
  }

  return {
    enter(phase) {
      end();
      if (phase === 'disk') begin();
      current = { phase, since: monotonic() };
    },
    end,
    seconds() {
      if (current === undefined) return done;
      return new Map([...done, [current.phase, (monotonic() - current.since) / 1000]]);
    },
    beginWithout() {
      starts += 1;
    },
    first() {
      if (starts !== 1 || startedAtMs === 0) return undefined;
      const members = { disk: 'diskMs', machine: 'machineMs', guest: 'guestMs' } as const;
      const phases = [...done].map(([phase, seconds]) => [members[phase], seconds * 1000]);
      return { startedAtMs, ...Object.fromEntries(phases) };
    },
  };
}
