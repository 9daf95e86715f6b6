/** Lists and watches one resource through every outage; says where it does not know what happened. */
import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { call, type Endpoint, messageIn, open } from '../https.ts';

interface Item {
  metadata: { uid?: string; resourceVersion?: string };
}

export interface WatchTarget<T extends Item> {
  seen(type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T, isLate: boolean): void;
  /** What happened between these times was not seen. */
  gap(from: number, until: number, why: string): void;
}

interface WatchEvent {
  type: string;
  object: Item & { code?: number; message?: string };
}

/** Longest silence on a watch before it is opened anew, in milliseconds: bookmarks come once a minute. */
const silenceMs = 90_000;
const pauseMs = 500;

/** Runs until the signal is aborted; never rejects. Paths as kube-apiserver has them, e.g. `/api/v1/pods`. */
export async function watch<T extends Item>(
  endpoint: Endpoint,
  path: string,
  target: WatchTarget<T>,
  signal: AbortSignal,
): Promise<void> {
  const known = new Map<string, T>();
  let version: string | undefined;
  let seenAt = Date.now();
  let why = '';
  while (!signal.aborted) {
    try {
      if (version === undefined) {
        const isFirst = why === '';
        version = await relist(endpoint, path, known, target, isFirst);
        if (!isFirst) target.gap(seenAt, Date.now(), why);
        seenAt = Date.now();
      }
      for await (const event of events(endpoint, path, version, signal)) {
        seenAt = Date.now();
        if (event.type === 'ERROR') throw new Expired(event.object.message ?? 'the watch was refused');
        version = event.object.metadata.resourceVersion ?? version;
        note(event, known, target);
      }
    } catch (error) {
      if (error instanceof Expired) [version, why] = [undefined, error.message];
    }
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

/** The version to go on from is too old: what was missed can only be listed. */
class Expired extends Error {}

async function relist<T extends Item>(
  endpoint: Endpoint,
  path: string,
  known: Map<string, T>,
  target: WatchTarget<T>,
  isFirst: boolean,
): Promise<string> {
  const answer = await call(endpoint, { method: 'GET', path });
  if (answer.status !== 200) throw new Error(messageIn(answer));
  const list = answer.body as { metadata: { resourceVersion: string }; items: T[] };
  const there = new Set(list.items.map(({ metadata }) => metadata.uid ?? ''));
  for (const [uid, object] of known) {
    if (there.has(uid)) continue;
    known.delete(uid);
    target.seen('DELETED', object, true);
  }
  for (const object of list.items) {
    const old = known.get(object.metadata.uid ?? '');
    known.set(object.metadata.uid ?? '', object);
    if (old?.metadata.resourceVersion === object.metadata.resourceVersion) continue;
    target.seen(old === undefined ? 'ADDED' : 'MODIFIED', object, !isFirst);
  }
  return list.metadata.resourceVersion;
}

function note<T extends Item>(event: WatchEvent, known: Map<string, T>, target: WatchTarget<T>): void {
  const { type } = event;
  if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED') return;
  const object = event.object as unknown as T;
  if (type === 'DELETED') known.delete(object.metadata.uid ?? '');
  else known.set(object.metadata.uid ?? '', object);
  target.seen(type, object, false);
}

async function* events(
  endpoint: Endpoint,
  path: string,
  version: string,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent> {
  const query = `watch=1&allowWatchBookmarks=true&timeoutSeconds=300&resourceVersion=${version}`;
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), silenceMs);
  try {
    const both = AbortSignal.any([signal, silent.signal]);
    const response = await open(endpoint, { method: 'GET', path: `${path}?${query}` }, both);
    if (response.statusCode === 410) throw new Expired('the resource version is too old');
    if (response.statusCode !== 200) throw new Error(`${response.statusCode}`);
    for await (const line of lines(response)) {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), silenceMs);
      yield JSON.parse(line) as WatchEvent;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Not readline: it does not hand on that the connection broke. */
async function* lines(response: IncomingMessage): AsyncGenerator<string> {
  let rest = '';
  response.setEncoding('utf8');
  for await (const chunk of response as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    yield* parts.filter((line) => line !== '');
  }
}
