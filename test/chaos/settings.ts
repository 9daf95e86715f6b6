import { randomBytes } from 'node:crypto';

/** What a run is told by its environment. */
export interface ChaosSettings {
  readonly seed: string;
  /** Milliseconds of the phase with faults. */
  readonly chaosMs: number;
  /** A local cluster of three nodes that runs already, to be used and left as it is. */
  readonly cluster: string | undefined;
}

export interface SoakSettings {
  readonly seed: string;
  readonly soakMs: number;
  readonly cluster: string | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

export function chaosSettings(env: Environment): ChaosSettings {
  const minutes = minutesOf(env, 'SVC3_CHAOS_MINUTES', env['CI'] === 'true' ? 10 : 30);
  return { ...common(env), chaosMs: minutes * 60_000 };
}

export function soakSettings(env: Environment): SoakSettings {
  return { ...common(env), soakMs: minutesOf(env, 'SVC3_SOAK_MINUTES', 45) * 60_000 };
}

function common(env: Environment): { seed: string; cluster: string | undefined } {
  const seed = env['SVC3_CHAOS_SEED'] || randomBytes(4).toString('hex');
  return { seed, cluster: env['SVC3_CHAOS_CLUSTER'] || undefined };
}

/** @throws RangeError that names the variable */
function minutesOf(env: Environment, variable: string, otherwise: number): number {
  const text = env[variable];
  if (text === undefined || text === '') return otherwise;
  const minutes = Number(text);
  if (Number.isFinite(minutes) && minutes > 0) return minutes;
  throw new RangeError(`${variable} is a number of minutes above 0, not ${text}`);
}
