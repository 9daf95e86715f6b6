import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { createLeaderElector } from '../../src/controller/leader.ts';
import type { LeaderElector, LeaderElectorOptions } from '../../src/controller/leader.ts';
import { shortTimes } from './electiontimes.ts';

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

export interface Candidate {
  readonly elector: LeaderElector;
  /** Tells that its work runs. */
  works(): boolean;
  readonly run: Promise<void>;
  stop(): Promise<void>;
}

/** One that takes part in an election until it is stopped, at the latest when the test is over. */
export function candidate(
  options: Pick<LeaderElectorOptions, 'client' | 'namespace' | 'name' | 'identity'> &
    Partial<LeaderElectorOptions>,
): Candidate {
  let working = false;
  const stop = new AbortController();
  const elector = createLeaderElector({
    log: silent,
    times: shortTimes,
    async onStarted(signal) {
      working = true;
      if (!signal.aborted) await once(signal, 'abort');
      working = false;
    },
    ...options,
  });
  const run = elector.run(stop.signal);
  const ended = run.catch(() => undefined);
  const made: Candidate = {
    elector,
    works: () => working,
    run,
    async stop() {
      stop.abort();
      await ended;
    },
  };
  onTestFinished(() => made.stop());
  return made;
}
