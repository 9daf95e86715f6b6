import { randomBytes } from 'node:crypto';

/** What a run is told by its environment. */
export interface RunSettings {
  readonly seed: string;
  /** Milliseconds of the phase with faults, or of the whole soak. */
  readonly durationMs: number;
  /** A local cluster of three nodes that runs already, to be used and left as it is. */
  readonly cluster: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

export function chaosSettings(env: Environment): RunSettings {
  return runSettings(env, minutesOf(env, 'SVC3_CHAOS_MINUTES', 30));
}

export function soakSettings(env: Environment): RunSettings {
  return runSettings(env, minutesOf(env, 'SVC3_SOAK_MINUTES', 45));
}

function runSettings(env: Environment, minutes: number): RunSettings {
  const seed = env['SVC3_CHAOS_SEED'] || randomBytes(4).toString('hex');
  return { seed, durationMs: minutes * 60_000, cluster: env['SVC3_CHAOS_CLUSTER'] || undefined };
}

/** @throws RangeError that names the variable */
function minutesOf(env: Environment, variable: string, otherwise: number): number {
  const text = env[variable];
  if (text === undefined || text === '') return otherwise;
  const minutes = Number(text);
  if (Number.isFinite(minutes) && minutes > 0) return minutes;
  throw new RangeError(`${variable} is a number of minutes above 0, not ${text}`);
}
