import { createHash, randomBytes } from 'node:crypto';
import type { Event } from '../api/core.ts';
import { startReasons } from '../api/reasons.ts';
import { events } from '../api/resources.ts';
import { isSvc3Error, messageOf, printable } from '../errors.ts';
import { createBuckets, createSimilarity, seriesLimit } from './eventlimits.ts';
import { type EventDropReason, EventQueue } from './eventqueue.ts';
import type { KubeObject, Submitted } from '../api/object.ts';
import type { EventRecorder, KubeClient, Log } from './types.ts';

/** An event that repeats within this time is counted up instead of written anew (events.k8s.io: "series"). */
const seriesMs = 6 * 60_000;

const defaultFlushMs = 60_000;

/** Memory of an Event without its note, roughly. */
const eventBytes = 1_000;

const noteBytes = 1_024;

/** What a process that ends gives its Events, in milliseconds: it has more to do then, as to release its lease. */
export const eventDrainMs = 3_000;

export interface RecorderOptions {
  /** `svc3-operator`: who reports. */
  component: string;
  /** Name of the pod. Default: the component. */
  instance?: string;
  log: Log;
  now?: () => Date;
  /** Milliseconds between two writes of one series. Default 60,000. */
  flushMs?: number;
  /** Memory for Events that wait to be written. */
  limitBytes?: number;
  /** For a metric. */
  onDropped?: (reason: EventDropReason) => void;
}

export interface Recorder extends EventRecorder {
  /** Resolves when everything recorded so far has been written or given up, after `limitMs` at the latest: the rest is dropped. */
  drain(limitMs?: number): Promise<void>;
}

type RecordedEvent = Parameters<EventRecorder['event']>[1];

interface Series {
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  count: number;
  lastAt: number;
  flushedAt: number;
  flushTimer: NodeJS.Timeout | undefined;
}

/** Cut to what the server takes, between characters, and without control characters: notes quote what others have written. */
export function shortenNote(text: string, limit = noteBytes): string {
  const line = printable(text);
  const bytes = Buffer.from(line, 'utf8');
  if (bytes.length <= limit) return line;
  let end = limit - 3;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.subarray(0, end).toString('utf8')}…`;
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}

function microTime(time: Date): string {
  return `${time.toISOString().slice(0, -1)}000Z`;
}

/**
 * Writes events.k8s.io/v1 Events in the background, one at a time (`EventQueue`), correlated as by client-go's
 * EventCorrelator: the same again is counted up in a series, more than ten of one reason about one object become one series of
 * "similar events", and of what is only good to know a flood about one object is dropped. Failures and starts are not.
 */
export function createRecorder(client: KubeClient, options: RecorderOptions): Recorder {
  return new QueueingRecorder(client, options);
}

class QueueingRecorder implements Recorder {
  readonly #client: KubeClient;
  readonly #options: RecorderOptions;
  readonly #queue: EventQueue;
  readonly #series = new Map<string, Series>();
  readonly #allow = createBuckets();
  readonly #isTooSimilar = createSimilarity();

  constructor(client: KubeClient, options: RecorderOptions) {
    this.#client = client;
    this.#options = options;
    this.#queue = new EventQueue(options);
  }

  event(object: KubeObject, event: RecordedEvent): void {
    try {
      this.#record(object, event);
    } catch (error) {
      this.#options.log.debug({ err: messageOf(error) }, 'event could not be recorded');
    }
  }

  drain(limitMs?: number): Promise<void> {
    return this.#queue.drain(limitMs);
  }

  #record(object: KubeObject, event: RecordedEvent): void {
    const { uid = '', namespace = 'default', name = 'object' } = object.metadata ?? {};
    const about = `${uid}/${namespace}/${name}`;
    const similarKey = hashOf([about, event.type, event.reason]);
    const exactKey = hashOf([similarKey, event.message]);
    if (this.#isRepeat(exactKey)) return;
    const isSimilar = this.#isTooSimilar(similarKey);
    const key = isSimilar ? similarKey : exactKey;
    if (isSimilar && this.#isRepeat(key)) return;
    const isImportant = event.type === 'Warning' || startReasons.has(event.reason);
    if (!this.#allow(about) && !isImportant) {
      this.#queue.dropped('flood');
      return;
    }
    const series = newSeries(key, namespace, name);
    this.#remember(series);
    const message = isSimilar ? `(combined from similar events): ${event.message}` : event.message;
    const body = this.#newEvent(object, series, { ...event, message });
    this.#queue.add({
      namespace,
      rank: isImportant ? 'important' : 'information',
      bytes: eventBytes + (body.note?.length ?? 0),
      send: () => this.#client.create(events, body),
      // One that is refused would be so again; should that pass, its count finds no Event.
      onDropped: (reason) => {
        if (reason !== 'refused') this.#forget(series);
      },
    });
  }

  /** Counts it up where it has been told lately. */
  #isRepeat(key: string): boolean {
    const old = this.#series.get(key);
    if (old === undefined || performance.now() - old.lastAt >= seriesMs) return false;
    this.#countUp(old);
    return true;
  }

  #countUp(series: Series): void {
    const { flushMs = defaultFlushMs } = this.#options;
    series.count += 1;
    series.lastAt = performance.now();
    if (series.flushTimer === undefined) {
      const wait = Math.max(0, series.flushedAt + flushMs - performance.now());
      series.flushTimer = setTimeout(() => this.#flush(series), wait).unref();
    }
  }

  #flush(series: Series): void {
    series.flushTimer = undefined;
    series.flushedAt = performance.now();
    const { namespace, count } = series;
    const body = { series: { count, lastObservedTime: this.#now() } };
    const send = () => this.#writeCount(series, body);
    this.#queue.add({ namespace, rank: 'count', bytes: eventBytes, send });
  }

  async #writeCount(series: Series, body: object): Promise<void> {
    const { namespace, name } = series;
    try {
      await this.#client.patch(events, { namespace, name }, { type: 'merge', body });
    } catch (error) {
      // Deleted by somebody or for its age, or refused when it was made.
      if (isSvc3Error(error, 'NotFound')) this.#forget(series);
      throw error;
    }
  }

  /** There is no Event to count up: the next repeat is written anew, as by client-go. */
  #forget(series: Series): void {
    clearTimeout(series.flushTimer);
    series.flushTimer = undefined;
    if (this.#series.get(series.key) === series) this.#series.delete(series.key);
  }

  /** The oldest is forgotten, with its count written. */
  #remember(series: Series): void {
    this.#series.delete(series.key);
    this.#series.set(series.key, series);
    const [oldest] = this.#series;
    if (this.#series.size > seriesLimit && oldest !== undefined) {
      this.#series.delete(oldest[0]);
      if (oldest[1].flushTimer === undefined) return;
      clearTimeout(oldest[1].flushTimer);
      this.#flush(oldest[1]);
    }
  }

  #newEvent(object: KubeObject, { namespace, name }: Series, event: RecordedEvent): Submitted<Event> {
    const { component, instance = component } = this.#options;
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { namespace, name },
      eventTime: this.#now(),
      reportingController: `svc3.dev/${component}`,
      reportingInstance: instance.slice(0, 128),
      action: event.reason,
      reason: event.reason,
      type: event.type,
      note: shortenNote(event.message),
      regarding: referenceTo(object),
    };
  }

  #now(): string {
    return microTime(this.#options.now?.() ?? new Date());
  }
}

function newSeries(key: string, namespace: string, name: string): Series {
  const at = performance.now();
  return {
    key,
    namespace,
    name: `${name.slice(0, 230)}.${randomBytes(8).toString('hex')}`,
    count: 1,
    lastAt: at,
    flushedAt: at,
    flushTimer: undefined,
  };
}

function referenceTo({ apiVersion, kind, metadata = {} }: KubeObject): NonNullable<Event['regarding']> {
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    ...(apiVersion === undefined ? {} : { apiVersion }),
    ...(kind === undefined ? {} : { kind }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(name === undefined ? {} : { name }),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
  };
}
