/**
 * Does it `delayMs` after the first call, and later calls count as one until then; each thing it has done puts the next
 * time off by `eachMs`.
 */
export function paced(action: () => number, delayMs: number, eachMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  let notBefore = 0;
  const run = (): void => {
    timer = undefined;
    notBefore = performance.now() + action() * eachMs;
  };
  return () => {
    timer ??= setTimeout(run, Math.max(delayMs, notBefore - performance.now())).unref();
  };
}

/** Does it `delayMs` after the first call; later calls count as one until then. */
export function debounced(action: () => void, delayMs: number): () => void {
  let timer: NodeJS.Timeout | undefined;
  return () => {
    timer ??= setTimeout(() => {
      timer = undefined;
      action();
    }, delayMs);
  };
}
