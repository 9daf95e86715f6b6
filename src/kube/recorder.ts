import { createHash, randomBytes } from 'node:crypto';
import type { Event } from '../api/core.ts';
import { startReasons } from '../api/reasons.ts';
import { events } from '../api/resources.ts';
import { messageOf } from '../errors.ts';
import { type EventDropReason, EventQueue } from './eventqueue.ts';
import type { KubeObject } from '../api/object.ts';
import type { EventRecorder, KubeClient, Log } from './types.ts';

/** An event that repeats within this time is counted up instead of written anew (events.k8s.io: "series"). */
const seriesMs = 6 * 60_000;

const defaultFlushMs = 60_000;

/** Events about one object that tell neither of a failure nor of a start: client-go's EventSourceObjectSpamFilter, but sooner refilled. */
const burst = 25;
const refillMs = 60_000;

/** Different messages of one reason about one object, and the time in which they are similar: client-go's EventAggregator. */
const similarMost = 10;
const similarMs = 10 * 60_000;

/** What client-go's caches hold. */
const seriesLimit = 4_096;

/** Memory of an Event without its note, roughly. */
const eventBytes = 1_000;

const noteBytes = 1_024;

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
  /** Resolves when everything recorded so far has been written or given up. */
  drain(): Promise<void>;
}

type RecordedEvent = Parameters<EventRecorder['event']>[1];

interface Series {
  readonly namespace: string;
  readonly name: string;
  count: number;
  lastAt: number;
  flushedAt: number;
  flushTimer: NodeJS.Timeout | undefined;
}

/** Cut to what the server takes, between characters. */
export function shortenNote(text: string, limit = noteBytes): string {
  const bytes = Buffer.from(text, 'utf8');
  if (bytes.length <= limit) {
    return text;
  }
  let end = limit - 3;
  while (((bytes[end] ?? 0) & 0xc0) === 0x80) {
    end -= 1;
  }
  return `${bytes.subarray(0, end).toString('utf8')}…`;
}

function hashOf(parts: readonly string[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64');
}

function microTime(time: Date): string {
  return `${time.toISOString().slice(0, -1)}000Z`;
}

/** A token bucket per object, so that a controller gone wild about one does not silence the others. */
function createBuckets(): (key: string) => boolean {
  const buckets = new Map<string, { tokens: number; at: number }>();
  return (key) => {
    const now = performance.now();
    const bucket = buckets.get(key) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + (now - bucket.at) / refillMs);
    bucket.at = now;
    buckets.delete(key);
    buckets.set(key, bucket);
    const [oldest] = buckets.keys();
    if (buckets.size > seriesLimit && oldest !== undefined) {
      buckets.delete(oldest);
    }
    if (bucket.tokens < 1) {
      return false;
    }
    bucket.tokens -= 1;
    return true;
  };
}

/** Counts the different messages of one reason about one object; says whether there are too many to be told one by one. */
function createSimilarity(): (key: string) => boolean {
  const seen = new Map<string, { count: number; at: number }>();
  return (key) => {
    const now = performance.now();
    const known = seen.get(key);
    const similar = known !== undefined && now - known.at < similarMs ? known : { count: 0, at: now };
    similar.count += 1;
    similar.at = now;
    seen.delete(key);
    seen.set(key, similar);
    const [oldest] = seen.keys();
    if (seen.size > seriesLimit && oldest !== undefined) seen.delete(oldest);
    return similar.count > similarMost;
  };
}

/**
 * Writes events.k8s.io/v1 Events in the background, one at a time (`EventQueue`), correlated as by client-go's
 * EventCorrelator: the same again is counted up in a series, more than ten of one reason about one object become one series of
 * "similar events", and of what is only good to know a flood about one object is dropped. Failures and starts are not.
 */
export function createRecorder(client: KubeClient, options: RecorderOptions): Recorder {
  const { component, log, flushMs = defaultFlushMs } = options;
  const now = options.now ?? (() => new Date());
  const known = new Map<string, Series>();
  const allow = createBuckets();
  const isTooSimilar = createSimilarity();
  const queue = new EventQueue(options);

  function newEvent(object: KubeObject, { namespace, name }: Series, event: RecordedEvent): Event {
    const { metadata = {} } = object;
    return {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { namespace, name },
      eventTime: microTime(now()),
      reportingController: `svc3.dev/${component}`,
      reportingInstance: (options.instance ?? component).slice(0, 128),
      action: event.reason,
      reason: event.reason,
      type: event.type,
      note: shortenNote(event.message),
      regarding: {
        ...(object.apiVersion === undefined ? {} : { apiVersion: object.apiVersion }),
        ...(object.kind === undefined ? {} : { kind: object.kind }),
        ...(metadata.namespace === undefined ? {} : { namespace: metadata.namespace }),
        ...(metadata.name === undefined ? {} : { name: metadata.name }),
        ...(metadata.uid === undefined ? {} : { uid: metadata.uid }),
        ...(metadata.resourceVersion === undefined ? {} : { resourceVersion: metadata.resourceVersion }),
      },
    };
  }

  function flush(series: Series): void {
    series.flushTimer = undefined;
    series.flushedAt = performance.now();
    const { namespace, name, count } = series;
    const body = { series: { count, lastObservedTime: microTime(now()) } };
    const send = () => client.patch(events, { namespace, name }, { type: 'merge', body });
    queue.add({ namespace, rank: 'count', bytes: eventBytes, send });
  }

  function countUp(series: Series): void {
    series.count += 1;
    series.lastAt = performance.now();
    if (series.flushTimer === undefined) {
      const wait = Math.max(0, series.flushedAt + flushMs - performance.now());
      series.flushTimer = setTimeout(flush, wait, series).unref();
    }
  }

  function remember(key: string, series: Series): void {
    known.delete(key);
    known.set(key, series);
    const [oldest] = known;
    if (known.size > seriesLimit && oldest !== undefined) {
      known.delete(oldest[0]);
      if (oldest[1].flushTimer === undefined) return;
      clearTimeout(oldest[1].flushTimer);
      flush(oldest[1]);
    }
  }

  /** Counts it up where it has been told lately. */
  function isRepeat(key: string): boolean {
    const old = known.get(key);
    if (old === undefined || performance.now() - old.lastAt >= seriesMs) return false;
    countUp(old);
    return true;
  }

  function record(object: KubeObject, event: RecordedEvent): void {
    const { uid = '', namespace = 'default', name = 'object' } = object.metadata ?? {};
    const about = `${uid}/${namespace}/${name}`;
    const similarKey = hashOf([about, event.type, event.reason]);
    const exactKey = hashOf([similarKey, event.message]);
    if (isRepeat(exactKey)) return;
    const isSimilar = isTooSimilar(similarKey);
    const key = isSimilar ? similarKey : exactKey;
    if (isSimilar && isRepeat(key)) return;
    const isImportant = event.type === 'Warning' || startReasons.has(event.reason);
    if (!allow(about) && !isImportant) {
      queue.dropped('flood');
      return;
    }
    const at = performance.now();
    const series: Series = {
      namespace,
      name: `${name.slice(0, 230)}.${randomBytes(8).toString('hex')}`,
      count: 1,
      lastAt: at,
      flushedAt: at,
      flushTimer: undefined,
    };
    remember(key, series);
    const message = isSimilar ? `(combined from similar events): ${event.message}` : event.message;
    const body = newEvent(object, series, { ...event, message });
    queue.add({
      namespace,
      rank: isImportant ? 'important' : 'information',
      bytes: eventBytes + (body.note?.length ?? 0),
      send: () => client.create(events, body),
    });
  }

  return {
    event(object, event) {
      try {
        record(object, event);
      } catch (error) {
        log.debug({ err: messageOf(error) }, 'event could not be recorded');
      }
    },
    drain: () => queue.drain(),
  };
}
