import { createHash, randomBytes } from 'node:crypto';

export function newTraceId(): string {
  return randomBytes(16).toString('hex');
}

export function newSpanId(): string {
  return randomBytes(8).toString('hex');
}

/** The same parts give the same ID in every process. */
export function traceIdOf(...parts: readonly string[]): string {
  return digestOf('trace', parts).slice(0, 32);
}

/** As `traceIdOf`. */
export function spanIdOf(...parts: readonly string[]): string {
  return digestOf('span', parts).slice(0, 16);
}

function digestOf(kind: string, parts: readonly string[]): string {
  return createHash('sha256')
    .update(JSON.stringify([kind, ...parts]))
    .digest('hex');
}
