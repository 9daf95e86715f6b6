import { Readable } from 'node:stream';
import { group } from '../../api/meta.ts';
import type { KubeObject } from '../../api/object.ts';
import { isShown } from '../auth/permission.ts';
import type { AccessAttributes, Caller } from '../call/caller.ts';
import type { Caches } from '../call/caches.ts';
import { keepLease } from '../streams/streamlease.ts';

/** Changes of so many milliseconds are told together. */
const gatherMs = 100;
/** A page that hears nothing for much longer connects again. */
const beatMs = 15_000;
/** Items of one event to a page that takes everything in parts: one that hears nothing for long on a slow line connects again. */
const partItems = 200;
/** What is told of thousands of items is put together as it is read, in pieces of about so many characters: many pages may be open at once. */
const pieceCharacters = 16_384;

const kinds = ['vms', 'images', 'isos', 'vmConfigs', 'vmPools'] as const;
type Kind = (typeof kinds)[number];

interface LiveOptions {
  readonly caller: Caller;
  readonly caches: Caches;
  /** Absent: all namespaces. */
  readonly namespace: string | undefined;
  /** Aborted when the client has gone or the process drains. */
  readonly signal: AbortSignal;
  readonly confirmEveryMs?: number;
  /** Pages of before take a `snapshot` for everything. */
  readonly inParts?: boolean;
}

/**
 * Server-sent events of what the caller may list: first `snapshot` with all items by kind, and again where a right to more of them is given
 * (`inParts`: before it, as `part`, all but the last of each kind; many changes are several `change` then); then
 * `change` with those that are new or different and those that are gone (`namespace/name`), `beat` in silence, `over` with the reason before it ends because of a right that was lost.
 * A slow reader is told the newest state, once.
 *
 * @throws Svc3Error Unauthorized
 */
export async function liveStream(options: LiveOptions): Promise<Readable> {
  const { caller, caches, namespace, inParts = false } = options;
  const rightTo = (kind: Kind): AccessAttributes => ({
    group,
    resource: kind.toLowerCase(),
    verb: 'list',
    ...(namespace === undefined ? {} : { namespace }),
  });
  const allowedOf = async (asked: readonly Kind[], isFresh?: boolean): Promise<Kind[]> => {
    const answers = await Promise.all(asked.map((kind) => isShown(caller, rightTo(kind), isFresh)));
    return asked.filter((_, index) => answers[index]);
  };
  const stream = new LiveStream(caches, await allowedOf(kinds), { namespace, inParts });
  const { expiresAt } = caller;
  const end = keepLease(
    {
      user: await caller.user(),
      ...(expiresAt === undefined ? {} : { endsAt: expiresAt }),
      async confirm() {
        await Promise.all([...stream.kinds].map((kind) => caller.authorize(rightTo(kind), true)));
        const others = kinds.filter((kind) => !stream.kinds.has(kind));
        stream.tellAlso(await allowedOf(others, true));
      },
    },
    caches.accounts,
    ({ message }) => stream.over(message),
    options.confirmEveryMs,
  );
  const leave = (): void => stream.leave();
  options.signal.addEventListener('abort', leave, { once: true });
  stream.once('close', () => {
    end();
    options.signal.removeEventListener('abort', leave);
  });
  if (options.signal.aborted) leave();
  return stream;
}

function keyOf({ metadata }: KubeObject): string {
  return `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;
}

function inOrder(objects: readonly KubeObject[]): KubeObject[] {
  return objects
    .map((object) => ({ object, key: keyOf(object) }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ object }) => object);
}

/** The texts of the items that are there, as a list in JSON. */
function* listed<T>(items: Iterable<T>, textOf: (item: T) => string | undefined): Generator<string, void> {
  let separator = '';
  for (const item of items) {
    const text = textOf(item);
    if (text === undefined) continue;
    yield separator + text;
    separator = ',';
  }
}

/** In parts of so many, at most; the last is the only one of nothing. */
function partsOf<T>(all: readonly T[], size: number): (readonly T[])[] {
  if (all.length <= size) return [all];
  const count = Math.ceil(all.length / size);
  return Array.from({ length: count }, (_, index) => all.slice(index * size, (index + 1) * size));
}

/** What has changed, by kind, so many at once; made as it is read. */
function* changesInParts(
  changed: readonly (readonly [Kind, ReadonlySet<string>])[],
  size: number,
): Generator<ReadonlyMap<Kind, readonly string[]>, void> {
  let part = new Map<Kind, string[]>();
  let left = size;
  for (const [kind, keys] of changed)
    for (const key of keys) {
      const some = part.get(kind) ?? [];
      some.push(key);
      part.set(kind, some);
      left -= 1;
      if (left > 0) continue;
      yield part;
      part = new Map();
      left = size;
    }
  if (part.size > 0) yield part;
}

function* inPieces(texts: Iterable<string>): Generator<string, void> {
  let piece = '';
  for (const text of texts) {
    piece += text;
    if (piece.length < pieceCharacters) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

class LiveStream extends Readable {
  readonly #caches: Caches;
  readonly #kinds = new Set<Kind>();
  readonly #namespace: string | undefined;
  readonly #partItems: number;
  readonly #changed = new Map<Kind, Set<string>>();
  readonly #forget: (() => void)[] = [];
  readonly #beat: NodeJS.Timeout;
  #gathering: NodeJS.Timeout | undefined;
  /** What is left of the event that is being told; nothing may be told in between. */
  #pieces: Iterator<string> | undefined;
  #isRead = false;
  /** All is to be told anew. */
  #isAgain = false;
  #isOver = false;

  constructor(
    caches: Caches,
    allowed: readonly Kind[],
    { namespace, inParts }: { readonly namespace: string | undefined; readonly inParts: boolean },
  ) {
    super();
    this.#caches = caches;
    this.#namespace = namespace;
    this.#partItems = inParts ? partItems : Infinity;
    this.#follow(allowed);
    this.#beat = setInterval(() => {
      if (this.#pieces === undefined) this.#tell('beat', '{}');
    }, beatMs);
    this.#pieces = inPieces(this.#snapshotTexts());
  }

  /** What is told of. */
  get kinds(): ReadonlySet<Kind> {
    return this.#kinds;
  }

  /** Tells of these kinds too: of everything that there is of them first. */
  tellAlso(kinds: readonly Kind[]): void {
    if (kinds.length === 0 || this.#isOver) return;
    this.#follow(kinds);
    this.#isAgain = true;
    this.#flush();
  }

  #follow(kinds: readonly Kind[]): void {
    for (const kind of kinds) {
      this.#kinds.add(kind);
      const follow = (object: KubeObject): void => this.#note(kind, object);
      this.#forget.push(this.#caches[kind].changes.follow(follow));
    }
  }

  /** Ends it because of a right that was lost. */
  over(reason: string): void {
    if (this.#pieces === undefined) this.#tell('over', JSON.stringify({ message: reason }));
    this.leave();
  }

  leave(): void {
    this.#release();
    if (!this.destroyed && !this.readableEnded) this.push(null);
  }

  override _read(): void {
    this.#isRead = true;
    this.#pump();
    this.#flush();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#release();
    done(error);
  }

  #release(): void {
    this.#isOver = true;
    this.#pieces = undefined;
    clearInterval(this.#beat);
    clearTimeout(this.#gathering);
    for (const forget of this.#forget.splice(0)) forget();
  }

  #tell(event: string, data: string): void {
    this.#isRead = this.push(`event: ${event}\ndata: ${data}\n\n`);
  }

  #note(kind: Kind, object: KubeObject): void {
    if (this.#namespace !== undefined && object.metadata?.namespace !== this.#namespace) return;
    const keys = this.#changed.get(kind) ?? new Set();
    this.#changed.set(kind, keys.add(keyOf(object)));
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined;
      this.#flush();
    }, gatherMs);
  }

  /** As much of the event as the reader takes. */
  #pump(): void {
    while (this.#isRead && this.#pieces !== undefined) {
      const { value, done } = this.#pieces.next();
      if (done === true) this.#pieces = undefined;
      else this.#isRead = this.push(value);
    }
  }

  #flush(): void {
    if (!this.#isRead || this.#pieces !== undefined) return;
    if (this.#isAgain) this.#pieces = inPieces(this.#snapshotTexts());
    else if (this.#changed.size === 0 || this.#gathering !== undefined) return;
    else this.#pieces = inPieces(this.#changesTexts([...this.#changed]));
    this.#isAgain = false;
    this.#changed.clear();
    this.#pump();
  }

  /** Each item is as it is when its piece is read: what changes after that is told as a change, and so is what was too late for its list. */
  *#snapshotTexts(): Generator<string, void> {
    const lasts = new Map<Kind, readonly KubeObject[]>();
    const kinds = [...this.#kinds];
    for (const kind of kinds) {
      const parts = partsOf(inOrder(this.#caches[kind].objects.list(this.#namespace)), this.#partItems);
      for (const part of parts.slice(0, -1)) yield* this.#eventTexts('part', new Map([[kind, part]]));
      lasts.set(kind, parts.at(-1) ?? []);
    }
    yield* this.#eventTexts('snapshot', lasts);
  }

  *#eventTexts(
    event: 'part' | 'snapshot',
    items: ReadonlyMap<Kind, readonly KubeObject[]>,
  ): Generator<string, void> {
    yield `event: ${event}\ndata: {`;
    for (const [index, [kind, objects]] of [...items].entries()) {
      yield `${index === 0 ? '' : ','}${JSON.stringify(kind)}:[`;
      yield* listed(objects, (object) => this.#itemText(kind, keyOf(object)));
      yield ']';
    }
    yield '}\n\n';
  }

  *#changesTexts(changed: readonly (readonly [Kind, ReadonlySet<string>])[]): Generator<string, void> {
    for (const part of changesInParts(changed, this.#partItems)) yield* this.#changeTexts([...part]);
  }

  *#changeTexts(changed: readonly (readonly [Kind, readonly string[]])[]): Generator<string, void> {
    yield 'event: change\ndata: {';
    for (const [index, [kind, keys]] of changed.entries()) {
      const gone: string[] = [];
      yield `${index === 0 ? '' : ','}${JSON.stringify(kind)}:{"changed":[`;
      yield* listed(keys, (key) => {
        const text = this.#itemText(kind, key);
        if (text === undefined) gone.push(key);
        return text;
      });
      yield `],"gone":${JSON.stringify(gone)}}`;
    }
    yield '}\n\n';
  }

  #itemText(kind: Kind, key: string): string | undefined {
    const [namespace = '', name = ''] = key.split('/');
    return this.#caches[kind].items.item(name, namespace)?.toString();
  }
}
