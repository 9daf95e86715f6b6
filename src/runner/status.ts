import type {
  RunnerPort,
  RunnerPowerState,
  RunnerReason,
  RunnerState,
  WarmStartReason,
} from '../api/runner.ts';

export interface WarmStart {
  readonly fromMemory: boolean;
  readonly reason: WarmStartReason;
  readonly message: string;
}

/** The part of the runner's state that changes. */
export interface Status {
  readonly powerState: RunnerPowerState;
  readonly guestReachable: boolean;
  /** `spec.readiness` is met: the guest answers, need not answer, or has had its time to. */
  readonly guestReady?: boolean | undefined;
  readonly readiness?: RunnerState['readiness'];
  readonly reason?: RunnerReason | undefined;
  readonly message?: string | undefined;
  readonly retrying: boolean;
  readonly restarts: number;
  /** Only of a guest that no VM has claimed. */
  readonly standby?: RunnerState['standby'];
  /** Only where the image has memory, or the hook of a guest of a pool has failed: how the guest was started last. */
  readonly warmStart?: WarmStart | undefined;
  /** A guest of a pool is being told whose it is. */
  readonly introducing?: true | undefined;
  /** Of a suspended guest whose QEMU has ended. */
  readonly suspendKind?: 'Disk' | undefined;
  readonly busy?: string | undefined;
  readonly revertRequest?: string | undefined;
  readonly startRequest?: string | undefined;
  readonly restartRequest?: string | undefined;
  readonly settingsVersion?: string | undefined;
  readonly diskSize?: number | undefined;
  /** Ports of the pod that lead into the guest, or will once it runs. */
  readonly ports: readonly RunnerPort[];
  /** Why some of those that were asked for are not among them. */
  readonly portsMessage?: string | undefined;
  readonly ejected: boolean;
  /** The guest has run on this disk, in this or an earlier life of the runner. */
  readonly guestStarted?: boolean | undefined;
}

export interface StatusBoard {
  readonly current: Status;
  readonly revision: number;
  update(change: Partial<Status>): void;
  /** Resolves when the revision is another than the given one, or after the time. */
  changed(revision: number, waitMs: number): Promise<void>;
}

/** Holds the status and wakes those who wait for it to change. Revisions start at the clock's milliseconds, so that a restarted runner repeats none. */
export function createStatusBoard(initial: Status): StatusBoard {
  let current = initial;
  let revision = Date.now();
  const waiting = new Set<() => void>();
  return {
    get current() {
      return current;
    },
    get revision() {
      return revision;
    },
    update(change) {
      const next = { ...current, ...change };
      if (JSON.stringify(next) === JSON.stringify(current)) return;
      current = next;
      revision += 1;
      for (const wake of waiting) wake();
    },
    changed(seen, waitMs) {
      if (seen !== revision || waitMs <= 0) return Promise.resolve();
      return new Promise((resolve) => {
        const wake = () => {
          clearTimeout(timer);
          waiting.delete(wake);
          resolve();
        };
        const timer = setTimeout(wake, waitMs);
        waiting.add(wake);
      });
    },
  };
}
