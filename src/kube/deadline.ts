import { Svc3Error } from '../errors.ts';
import type { Cut } from './exchange.ts';
import type { RawRequest } from './types.ts';

/** An abort signal that fires with the caller's or after a time, and lets go of the caller's when done. */
export function deadline(signal: AbortSignal | undefined, ms: number, what: string) {
  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Svc3Error('Timeout', `${what}: no answer within ${Math.round(ms)} ms`)),
    ms,
  );
  const forward = (): void => controller.abort(signal?.reason);
  if (signal?.aborted === true) forward();
  signal?.addEventListener('abort', forward, { once: true });
  return {
    controller,
    stopTimer: (): void => clearTimeout(timer),
    release(): void {
      clearTimeout(timer);
      signal?.removeEventListener('abort', forward);
    },
  };
}

/**
 * Cuts a call after a time or with the caller's signal; `suspect` is told when it takes suspiciously long, and again each time it has waited
 * for as long: the connection may not have been there before. Ends with the returned function. One timer: there are thousands of calls
 * in a second.
 */
export function limitCall(
  cut: Cut,
  { signal, method, path }: RawRequest,
  { leftMs, suspectMs }: { readonly leftMs: number; readonly suspectMs: number },
  suspect: () => void,
): () => void {
  const end = (): void =>
    cut.cut(new Svc3Error('Timeout', `${method} ${path}: no answer within ${Math.round(leftMs)} ms`));
  const wait = (restMs: number): NodeJS.Timeout => {
    if (suspectMs >= restMs) return setTimeout(end, restMs);
    return setTimeout(() => {
      timer = wait(restMs - suspectMs);
      suspect();
    }, suspectMs);
  };
  let timer = wait(leftMs);
  if (signal === undefined) return () => clearTimeout(timer);
  const forward = (): void => cut.cut(signal.reason as Error);
  if (signal.aborted) forward();
  signal.addEventListener('abort', forward, { once: true });
  return () => {
    clearTimeout(timer);
    signal.removeEventListener('abort', forward);
  };
}
