import { changedItems, itemsOf, noItems, type Items } from './items.ts';

/** A stream that is silent for so long is dead: the server beats every 15 s. */
const silenceMs = 45_000;
const waitsMs = [500, 1_000, 2_000, 5_000, 10_000];

/** What the page knows, and how it came. */
export interface LiveState {
  readonly items: Items;
  readonly state: 'connecting' | 'live' | 'lost';
  /** Whether the server has told them. */
  readonly isKnown: boolean;
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
  let items = noItems;
  let tries = 0;
  let isOver = false;

  const hear = (): void => {
    clearTimeout(timer);
    timer = setTimeout(lost, silenceMs);
  };
  const show = (next: Items): void => {
    hear();
    items = next;
    tries = 0;
    tell({ items, state: 'live', isKnown: true });
  };

  function lost(): void {
    source?.close();
    clearTimeout(timer);
    if (isOver) return;
    tell({ items, state: 'lost', isKnown: items !== noItems });
    void onEnd().then((goesOn) => {
      if (isOver || !goesOn) return;
      timer = setTimeout(connect, waitsMs[Math.min(tries, waitsMs.length - 1)]);
      tries += 1;
    });
  }

  function connect(): void {
    const opened = new EventSource(
      `/ui/live${namespace === '' ? '' : `?namespace=${encodeURIComponent(namespace)}`}`,
    );
    source = opened;
    hear();
    const on = (event: string, act: (data: string) => void): void =>
      opened.addEventListener(event, ({ data }: MessageEvent<string>) => act(data));
    on('snapshot', (data) => show(itemsOf(JSON.parse(data) as object)));
    on('change', (data) => show(changedItems(items, JSON.parse(data) as object)));
    on('beat', hear);
    opened.addEventListener('error', lost);
  }

  tell({ items, state: 'connecting', isKnown: false });
  connect();
  return () => {
    isOver = true;
    source?.close();
    clearTimeout(timer);
  };
}
