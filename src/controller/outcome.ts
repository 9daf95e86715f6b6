/** Not yet: look again after `afterMs`; neither a failure nor worth more than a debug line. */
export class WaitingError extends Error {
  override readonly name = 'WaitingError';
  readonly afterMs: number;

  constructor(message: string, afterMs: number) {
    super(message);
    this.afterMs = afterMs;
  }
}

export function waiting(message: string, afterMs: number): WaitingError {
  return new WaitingError(message, afterMs);
}
