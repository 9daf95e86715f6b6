/** What an invariant says against a run. */
export interface Violation {
  /** e.g. `chaos-a/vm-n3-x1z`. */
  readonly object: string;
  readonly at: number;
  /** One sentence. */
  readonly what: string;
  /** What was seen of it around that time, one line each. */
  readonly evidence: readonly string[];
}

/** Hours, minutes, seconds and milliseconds of a time in UTC. */
export function clock(at: number): string {
  return new Date(at).toISOString().slice(11, 23);
}
