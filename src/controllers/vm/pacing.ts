/** What an action has not come to. */
export interface Rest {
  isLeft(): boolean;
  /** Returns how many things it has done. */
  goOn(): number;
}

const noRest: Rest = { isLeft: () => false, goOn: () => 0 };

/**
 * Does it `delayMs` after the first call, and later calls count as one until then; each thing it has done puts the next
 * time off by `eachMs`. What it has not come to is a next time of its own.
 */
export function paced(action: () => number, delayMs: number, eachMs: number, rest = noRest): () => void {
  let timer: NodeJS.Timeout | undefined;
  let notBefore = 0;
  let isAsked = false;

  function wait(): void {
    timer ??= setTimeout(run, Math.max(delayMs, notBefore - performance.now())).unref();
  }

  function run(): void {
    timer = undefined;
    const isNew = isAsked;
    isAsked = false;
    const done = isNew ? action() : rest.goOn();
    notBefore = performance.now() + done * eachMs;
    if (rest.isLeft()) wait();
  }

  return () => {
    isAsked = true;
    wait();
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
