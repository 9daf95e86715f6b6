/** The user must act: trying again changes nothing until an object does. Reported, not retried. */
export class StallingError extends Error {
  override readonly name = 'StallingError';
}

/** Not yet: look again after `afterMs`; neither a failure nor worth more than a debug line. */
export class WaitingError extends Error {
  override readonly name = 'WaitingError';
  readonly afterMs: number;

  constructor(message: string, afterMs: number) {
    super(message);
    this.afterMs = afterMs;
  }
}

export function stalling(message: string, cause?: unknown): StallingError {
  return new StallingError(message, cause === undefined ? undefined : { cause });
}

export function waiting(message: string, afterMs: number): WaitingError {
  return new WaitingError(message, afterMs);
}
