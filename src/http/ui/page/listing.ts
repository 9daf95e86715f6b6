import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { call, messageOf } from './api.ts';

/** A list that no stream tells of: asked for again every so many milliseconds, and by `again`. */
const everyMs = 10_000;

export interface Listing<T> {
  /** Undefined until it is known. */
  readonly items: readonly T[] | undefined;
  readonly problem: string | undefined;
  readonly again: () => void;
}

/** What is said in place of a list that is not there. */
export function emptyText<T>({ items, problem }: Listing<T>, none: string): string {
  if (items !== undefined) return none;
  return problem === undefined ? 'Loading …' : 'Not known.';
}

export function useListing<T>(path: string): Listing<T> {
  const [listing, setListing] = useState<{ readonly items?: readonly T[]; readonly problem?: string }>({});
  const asked = useRef(0);
  const answered = useRef(0);
  const again = useCallback(() => {
    if (document.hidden) return;
    asked.current += 1;
    const turn = asked.current;
    // The answer to an earlier question may come after that to a later one, and knows less.
    const set: typeof setListing = (next) => {
      if (turn <= answered.current) return;
      answered.current = turn;
      setListing(next);
    };
    call<{ items: readonly T[] }>('GET', path)
      .then(({ body: { items } }) => set({ items }))
      // What was known stays.
      .catch((error: unknown) => set((known) => Object.assign({}, known, { problem: messageOf(error) })));
  }, [path]);
  useEffect(() => {
    answered.current = asked.current;
    setListing({});
    again();
    const timer = setInterval(again, everyMs);
    return () => clearInterval(timer);
  }, [again]);
  return { items: listing.items, problem: listing.problem, again };
}
