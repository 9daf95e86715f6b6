import { createHash, randomBytes } from 'node:crypto';
import type { Event } from '../api/core.ts';
import { events } from '../api/resources.ts';
import { messageOf } from '../errors.ts';
import type { EventRecorder, KubeClient, KubeObject, Log } from './types.ts';

/** An event that repeats within this time is counted up instead of written anew (events.k8s.io: "series"). */
const seriesMs = 6 * 60_000;

const defaultFlushMs = 60_000;

/** Events about one object: a burst, then one per refill. As kube's own recorder, but sooner refilled. */
const burst = 25;
const refillMs = 60_000;

/** Writes waiting at once; more are dropped. */
const queueLimit = 500;

const seriesLimit = 4_000;

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
}

export interface Recorder extends EventRecorder {
  /** Resolves when everything recorded so far has been written or given up. */
  drain(): Promise<void>;
}

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

/**
 * Writes events.k8s.io/v1 Events in the background, in order, one at a time: best effort. Repeats are counted up in a
 * series, floods about one object are dropped, failures are a debug line.
 */
export function createRecorder(client: KubeClient, options: RecorderOptions): Recorder {
  const { component, log, flushMs = defaultFlushMs } = options;
  const now = options.now ?? (() => new Date());
  const known = new Map<string, Series>();
  const allow = createBuckets();
  let queued = 0;
  let tail: Promise<void> = Promise.resolve();

  function enqueue(write: () => Promise<unknown>): void {
    if (queued >= queueLimit) {
      log.debug({ count: queued }, 'event dropped');
      return;
    }
    queued += 1;
    tail = tail
      .then(write)
      .catch((error: unknown) => log.debug({ err: messageOf(error) }, 'event could not be written'))
      .then(() => {
        queued -= 1;
      });
  }

  function newEvent(
    object: KubeObject,
    { namespace, name }: Series,
    event: Parameters<EventRecorder['event']>[1],
  ): Event {
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
    enqueue(() => client.patch(events, { namespace, name }, { type: 'merge', body }));
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
      clearTimeout(oldest[1].flushTimer);
      known.delete(oldest[0]);
    }
  }

  function record(object: KubeObject, event: Parameters<EventRecorder['event']>[1]): void {
    const { uid = '', namespace = 'default', name = 'object' } = object.metadata ?? {};
    const about = `${uid}/${namespace}/${name}`;
    const key = createHash('sha256')
      .update(JSON.stringify([about, event.type, event.reason, event.message]))
      .digest('base64');
    const old = known.get(key);
    if (old !== undefined && performance.now() - old.lastAt < seriesMs) {
      countUp(old);
      return;
    }
    if (!allow(about)) {
      log.debug({ namespace, name, reason: event.reason }, 'event dropped');
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
    const body = newEvent(object, series, event);
    enqueue(() => client.create(events, body));
  }

  return {
    event(object, event) {
      try {
        record(object, event);
      } catch (error) {
        log.debug({ err: messageOf(error) }, 'event could not be recorded');
      }
    },
    drain: () => tail,
  };
}
