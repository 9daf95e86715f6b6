/** What may happen once: who takes an id first has it. */
export interface Uses {
  /** Whether this is the first use within the time that uses are remembered. */
  take(id: string): boolean;
  /** As if it had not been used. */
  giveBack(id: string): void;
}

/**
 * Remembers uses in this process for `rememberMs`, which has to be longer than an id can be good for.
 * `now` is in milliseconds and only grows.
 */
export function createUses(rememberMs: number, now: () => number = () => performance.now()): Uses {
  /** In the order of use, so that the oldest stand first. */
  const used = new Map<string, number>();

  function forget(): void {
    const limit = now() - rememberMs;
    for (const [id, at] of used) {
      if (at > limit) return;
      used.delete(id);
    }
  }

  return {
    take(id) {
      forget();
      if (used.has(id)) return false;
      used.set(id, now());
      return true;
    },
    giveBack: (id) => void used.delete(id),
  };
}
