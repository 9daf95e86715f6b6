import type { RunnerSpec, RunnerState } from '../api/runner.ts';

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
  /** The guest that was started last has become that of a VM, which had no start of its own by that. */
  claim(): void;
  /** Whether the last start was that of a guest that a VM has claimed since. */
  isClaimed(): boolean;
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
  let isClaimed = false;

  function end(): void {
    if (current !== undefined) done.set(current.phase, (monotonic() - current.since) / 1000);
    current = undefined;
  }

  function begin(): void {
    done = new Map();
    starts += 1;
    startedAtMs = wall();
    isClaimed = false;
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
    claim() {
      isClaimed = true;
    },
    isClaimed: () => isClaimed,
    first() {
      if (starts !== 1 || startedAtMs === 0) return undefined;
      const members = { disk: 'diskMs', machine: 'machineMs', guest: 'guestMs' } as const;
      const phases = [...done].map(([phase, seconds]) => [members[phase], seconds * 1000]);
      return { startedAtMs, ...Object.fromEntries(phases) };
    },
  };
}

/**
 * What went before the first start in a pod, in seconds: until the pod was made (`placed`), and from then until this process began
 * (`pulled`). Clocks of two machines: it is never less than nothing. Empty where the pod does not say it.
 *
 * @param beganAtMs - of this process, in milliseconds since 1970
 */
export function podPhases(
  { waitedSinceMs, madeAtMs }: Pick<RunnerSpec, 'waitedSinceMs' | 'madeAtMs'>,
  beganAtMs: number,
): ReadonlyMap<'placed' | 'pulled', number> {
  if (waitedSinceMs === undefined || madeAtMs === undefined) return new Map();
  const seconds = (fromMs: number, toMs: number) => Math.max(0, toMs - fromMs) / 1000;
  return new Map([
    ['placed', seconds(waitedSinceMs, madeAtMs)],
    ['pulled', seconds(madeAtMs, beganAtMs)],
  ]);
}
