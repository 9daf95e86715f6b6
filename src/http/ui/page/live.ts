import { changedItems, itemsOf, kindsIn, noItems, type Items, type Kind } from './items.ts';

/** A stream that is silent for so long is dead: the server beats every 15 s. */
const silenceMs = 45_000;
const waitsMs = [500, 1_000, 2_000, 5_000, 10_000];

/** What the page knows, and how it came. */
export interface LiveState {
  readonly items: Items;
  readonly state: 'connecting' | 'live' | 'lost';
  /** Whether the server has told them. */
  readonly isKnown: boolean;
  /** What it has told of: of other kinds there are no items because they may not be listed. */
  readonly kinds: ReadonlySet<Kind>;
}

/** Before the server has told anything. */
export const nothingKnown: LiveState = {
  items: noItems,
  state: 'connecting',
  isKnown: false,
  kinds: new Set(),
};

/** Path and query of the stream that tells of a namespace ('': all). */
export function liveAddress(namespace: string): string {
  return `/ui/live?parts=true${namespace === '' ? '' : `&namespace=${encodeURIComponent(namespace)}`}`;
}

/**
 * Follows a namespace ('': all) until the returned function is called. After a loss it connects again and is told everything anew.
 *
 * @param onEnd - the server refused the stream or ended it; says whether to go on
 */
export function follow(
  namespace: string,
  tell: (live: LiveState) => void,
  onEnd: () => Promise<boolean>,
): () => void {
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let known = nothingKnown;
  let tries = 0;
  let isOver = false;

  const hear = (): void => {
    clearTimeout(timer);
    timer = setTimeout(lost, silenceMs);
  };
  const show = (items: Items, kinds: ReadonlySet<Kind>): void => {
    hear();
    tries = 0;
    known = { items, state: 'live', isKnown: true, kinds };
    tell(known);
  };

  function lost(): void {
    source?.close();
    clearTimeout(timer);
    if (isOver) return;
    tell({ ...known, state: 'lost' });
    void onEnd().then((goesOn) => {
      if (isOver || !goesOn) return;
      timer = setTimeout(connect, waitsMs[Math.min(tries, waitsMs.length - 1)]);
      tries += 1;
    });
  }

  function connect(): void {
    const opened = new EventSource(liveAddress(namespace));
    source = opened;
    hear();
    opened.addEventListener('open', hear);
    const on = (event: string, act: (data: string) => void): void =>
      opened.addEventListener(event, (said) => act((said as Event & { readonly data: string }).data));
    // Of a snapshot whose last part has not come.
    let parts: object[] = [];
    on('part', (data) => {
      hear();
      parts.push(JSON.parse(data) as object);
    });
    on('snapshot', (data) => {
      const last = JSON.parse(data) as object;
      show(itemsOf(...parts, last), kindsIn(last));
      parts = [];
    });
    on('change', (data) => show(changedItems(known.items, JSON.parse(data) as object), known.kinds));
    on('beat', hear);
    opened.addEventListener('error', lost);
  }

  tell(known);
  connect();
  return () => {
    isOver = true;
    source?.close();
    clearTimeout(timer);
  };
}
