import { setTimeout as sleep } from 'node:timers/promises';
import { isSvc3Error, messageOf } from '../errors.ts';
import { errorOfStatus } from './errors.ts';
import { createLineSplitter } from './lines.ts';
import { cutManagedFields } from './managedfields.ts';
import { apiVersionOf, resourcePath } from './path.ts';
import type { KubeObject } from '../api/object.ts';
import type { InformerOptions, ReflectorTuning } from './types.ts';

export const defaultTuning: ReflectorTuning = {
  watchMinMs: 300_000,
  watchMaxMs: 600_000,
  silenceMs: 150_000,
  backoffMinMs: 800,
  backoffMaxMs: 30_000,
  // An object may have 1.5 MB, and to read a page takes five to six times its text: 20 of them are 170 MB of the 512 that api and
  // operator may have.
  pageSize: 20,
};

/** How often a list that is older than what was already seen is asked for again before it is believed (etcd restored from a backup). */
const staleLists = 3;

/** Where a reflector puts what it hears, in the server's order. */
export interface Sink<T extends KubeObject> {
  replace(objects: readonly T[]): void;
  put(object: T): void;
  remove(object: T): void;
}

interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: T;
}

interface ListPage<T> {
  items: T[] | null;
  metadata: { resourceVersion?: string; continue?: string };
}

/** Versions are decimal numbers that can be compared (KEP-5504); anything else is not ordered. */
export function isNotNewer(version: string, than: string): boolean {
  if (!isDecimal(version) || !isDecimal(than)) {
    return false;
  }
  return version.length === than.length ? version <= than : version.length < than.length;
}

function isDecimal(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) {
      return false;
    }
  }
  return text !== '';
}

/** Full jitter between the two bounds, exponential in the number of failures in a row. */
export function backoffMs(
  failures: number,
  { backoffMinMs, backoffMaxMs }: ReflectorTuning,
  random: () => number = Math.random,
): number {
  const ceiling = Math.min(backoffMaxMs, backoffMinMs * 2 ** failures);
  return backoffMinMs + random() * Math.max(0, ceiling - backoffMinMs);
}

/**
 * Keeps a sink true to one resource of the server: list, then watch from there, for ever. Errors never end it; it ends
 * with the signal. Events that the sink has seen (a replay) are dropped by their resourceVersion.
 */
export function createReflector<T extends KubeObject>(
  options: InformerOptions<T>,
  sink: Sink<T>,
): { run(signal: AbortSignal): Promise<void> } {
  const {
    client,
    resource,
    namespace,
    labelSelector,
    fieldSelector,
    log,
    transform = dropManagedFields,
    keepManagedFields = false,
  } = options;
  const tuning = { ...defaultTuning, ...options.tuning };
  const path = resourcePath(resource, { namespace });
  const selectors = { labelSelector, fieldSelector };
  const fields = { resource: resource.plural };
  let version: string | undefined;

  async function listOnce(
    signal: AbortSignal,
    pageSize: number | undefined,
  ): Promise<{ items: T[]; version: string }> {
    const items: T[] = [];
    let next: string | undefined;
    for (;;) {
      const { body } = await client.request<ListPage<T>>({
        method: 'GET',
        path,
        query: { ...selectors, limit: pageSize, continue: next },
        signal,
        timeoutMs: 60_000,
      });
      for (const item of body.items ?? []) {
        // Lists of built-in kinds leave out what every watch event says.
        item.apiVersion ??= apiVersionOf(resource);
        item.kind ??= resource.kind;
        items.push(transform(item));
      }
      next = body.metadata.continue;
      if (next === undefined || next === '') {
        return { items, version: body.metadata.resourceVersion ?? '' };
      }
    }
  }

  async function list(signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      let listed: Awaited<ReturnType<typeof listOnce>>;
      try {
        listed = await listOnce(signal, tuning.pageSize);
      } catch (error) {
        if (!isSvc3Error(error, 'Expired', 'Gone')) {
          throw error;
        }
        // The continue token expired between two pages: in one piece it cannot.
        listed = await listOnce(signal, undefined);
      }
      const isOld =
        version !== undefined && listed.version !== version && isNotNewer(listed.version, version);
      if (!isOld || attempt >= staleLists) {
        version = listed.version;
        sink.replace(listed.items);
        return;
      }
      log?.warn({ ...fields, attempt }, 'list was older than what was seen before');
      await sleep(backoffMs(attempt, tuning), undefined, { signal });
    }
  }

  function take(line: string): void {
    const { type, object } = JSON.parse(line) as WatchEvent<T>;
    if (type === 'ERROR') {
      throw errorOfStatus(object);
    }
    const eventVersion = object.metadata?.resourceVersion;
    if (eventVersion === undefined || (version !== undefined && isNotNewer(eventVersion, version))) {
      return;
    }
    if (type === 'DELETED') {
      sink.remove(transform(object));
    } else if (type !== 'BOOKMARK') {
      sink.put(transform(object));
    }
    version = eventVersion;
  }

  /** One watch from the last version seen until it ends; resolves to whether it was of any use. */
  async function watch(signal: AbortSignal): Promise<boolean> {
    const started = performance.now();
    const timeoutMs = tuning.watchMinMs + Math.random() * (tuning.watchMaxMs - tuning.watchMinMs);
    const { body, cancel } = await client.stream({
      method: 'GET',
      path,
      query: {
        ...selectors,
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: version,
        timeoutSeconds: Math.max(1, Math.round(timeoutMs / 1000)),
      },
      silenceMs: tuning.silenceMs,
      movable: true,
      signal,
    });
    let lines = 0;
    const onLine = (line: string): void => {
      take(line);
      lines += 1;
    };
    const splitter = createLineSplitter(onLine, keepManagedFields ? undefined : cutManagedFields);
    try {
      for await (const chunk of body) {
        splitter.push(chunk);
      }
    } finally {
      cancel();
    }
    return lines > 0 || performance.now() - started > tuning.backoffMinMs;
  }

  /** Watches that break are resumed; only what says that the version is of no use any more leads to a new list. */
  function mustRelist(error: unknown): boolean {
    return !isSvc3Error(
      error,
      'ServiceUnavailable',
      'Timeout',
      'TooManyRequests',
      'InternalError',
      'BadGateway',
      'Unauthorized',
    );
  }

  /** Milliseconds until the next try; a watch that had brought something and was cut is no reason to wait long. */
  function delayOf(failures: number, error: unknown): number {
    const retryAfter = isSvc3Error(error) ? (error.details.retryAfterSeconds ?? 0) * 1000 : 0;
    return Math.max(retryAfter, failures === 0 ? Math.random() * 100 : backoffMs(failures, tuning));
  }

  async function run(signal: AbortSignal): Promise<void> {
    let failures = 0;
    let needsList = true;
    while (!signal.aborted) {
      const before: string | undefined = version;
      let failure: unknown;
      try {
        if (needsList) {
          await list(signal);
          needsList = false;
        }
        if (await watch(signal)) {
          failures = 0;
          continue;
        }
        failures += 1;
      } catch (error) {
        if (signal.aborted) {
          return;
        }
        failure = error;
        failures = version === before ? failures + 1 : 0;
        // The first 410 in a row is the ordinary end of a version, not a failure.
        failures = failures === 1 && !needsList && isSvc3Error(error, 'Expired', 'Gone') ? 0 : failures;
        needsList ||= mustRelist(error);
        log?.[needsList ? 'warn' : 'debug'](
          { ...fields, err: messageOf(error), failures },
          needsList ? 'list or watch failed' : 'watch ended',
        );
      }
      await sleep(delayOf(failures, failure), undefined, { signal }).catch(() => undefined);
    }
  }

  return { run };
}

function dropManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata?.managedFields !== undefined) {
    delete object.metadata.managedFields;
  }
  return object;
}
