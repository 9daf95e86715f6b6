/** What a chaos run and a soak have in common: a folder for what is recorded, a cluster, signals, an exit code. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Places } from '../../src/localcluster/shared/state.ts';
import { bringUp } from './localcluster.ts';
import { createRunLog, type RunLog } from './record/log.ts';

const results = fileURLToPath(new URL('../../chaos-results', import.meta.url));

export interface Program {
  readonly kind: 'chaos' | 'soak';
  readonly seed: string;
  readonly durationMs: number;
  /** A cluster that runs already. */
  readonly cluster: string | undefined;
  /** True where nothing was found. */
  run(places: Places, log: RunLog, signal: AbortSignal): Promise<boolean>;
}

/** Ends the process: 0 nothing was found, 1 something was, 130 interrupted. The cluster is gone then. */
export async function runProgram(program: Program): Promise<never> {
  try {
    process.exit(await carryOut(program));
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}

async function carryOut({ kind, seed, durationMs, cluster, run }: Program): Promise<number> {
  const time = new Date().toISOString().replaceAll(':', '-').slice(0, 19);
  const log = createRunLog(join(results, `${time}-${kind}-${seed}`));
  console.log(`seed ${seed}, ${durationMs / 60_000} min; what is recorded goes to ${log.folder}`);
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.once(name, () => interrupted.abort(new Error(name)));
  const made = await bringUp(kind, cluster, interrupted.signal);
  try {
    const isClean = await run(made.places, log, interrupted.signal);
    return interrupted.signal.aborted ? 130 : isClean ? 0 : 1;
  } finally {
    await made.remove();
    await log.close();
  }
}
