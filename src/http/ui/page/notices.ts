import { createContext } from 'preact';
import { useCallback, useContext, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { messageOf } from './api.ts';

/** Something that has no place of its own any more: its dialog was closed, its view left. */
export interface Notice {
  readonly id: number;
  readonly text: string;
}

/** Tells a notice to who is signed in, and to nobody who signs in after. */
export const Notify = createContext<(text: string) => void>(() => undefined);

/** The notices of a session; each stays until it is dismissed. */
export function useNotices(): {
  readonly notices: readonly Notice[];
  readonly notify: (text: string) => void;
  readonly dismiss: (id: number) => void;
} {
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const notify = useCallback(
    (text: string) => setNotices((before) => [...before, { id: (before.at(-1)?.id ?? 0) + 1, text }]),
    [],
  );
  const dismiss = (id: number): void => setNotices((before) => before.filter((one) => one.id !== id));
  return { notices, notify, dismiss };
}

/** Tells whether the component is there still: its dialog may have been closed, its view left. */
export function useIsShown(): () => boolean {
  const isShown = useRef(true);
  // Not by `useEffect`, which a component that goes before it is painted does not have.
  useLayoutEffect(
    () => () => {
      isShown.current = false;
    },
    [],
  );
  return () => isShown.current;
}

export interface Work {
  readonly isBusy: boolean;
  /** Does it unless something is being done already. */
  readonly begin: (work: () => Promise<unknown>) => void;
}

/**
 * One piece of work at a time. Its outcome belongs to the place that has asked for it: where that is gone, nothing is done about a success, which would
 * close what has been opened since, and a failure becomes a notice.
 *
 * @param about - what is done to what, for the notice
 */
export function useWork(
  about: string,
  outcome: { readonly onDone?: () => void; readonly onFailure: (error: unknown) => void },
): Work {
  const [isBusy, setBusy] = useState(false);
  const isShown = useIsShown();
  const notify = useContext(Notify);
  const fail = (error: unknown): void => {
    if (isShown()) outcome.onFailure(error);
    else notify(`${about}: ${messageOf(error)}`);
  };
  const succeed = (): void => {
    if (isShown()) outcome.onDone?.();
  };
  const begin = (work: () => Promise<unknown>): void => {
    if (isBusy) return;
    setBusy(true);
    void work()
      .then(succeed, fail)
      .finally(() => setBusy(false));
  };
  return { isBusy, begin };
}
