import { setTimeout as sleep } from 'node:timers/promises';
import { backoffDelay } from '../backoff.ts';
import { isPassing, isSvc3Error, messageOf } from '../errors.ts';
import { errorOfStatus } from './errors.ts';
import { FailureCount, type Step } from './failurecount.ts';
import { createLineSplitter } from './lines.ts';
import { cutAllManagedFields, cutManagedFields } from './managedfields.ts';
import { defaultPageSize, type ListPage } from './pages.ts';
import { resourcePath } from './path.ts';
import type { KubeObject } from '../api/object.ts';
import { apiVersionOf } from '../api/resources.ts';
import type { InformerOptions, ReflectorTuning } from './types.ts';

export const defaultTuning: ReflectorTuning = {
  watchMinMs: 300_000,
  watchMaxMs: 600_000,
  silenceMs: 150_000,
  backoffMinMs: 800,
  backoffMaxMs: 30_000,
  pageSize: defaultPageSize,
};

/** How often a list that is older than what was already seen is asked for again before it counts (etcd restored from a backup). */
const staleLists = 3;

/**
 * How many watches in a row may bring no sign of life until there is a list: kube-apiserver takes a version that it has not reached yet, as after a
 * restore of etcd, and says nothing until it has. Where that does not help, as behind a proxy that holds everything back, it is tried ever more seldom.
 */
const silentWatches = { first: 2, most: 16 };

/** Where a reflector puts what it receives, in the server's order. */
export interface Sink<T extends KubeObject> {
  replace(objects: readonly T[]): void;
  put(object: T): void;
  remove(object: T): void;
}

interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: T;
}

/** Versions are decimal numbers that can be compared (KEP-5504); anything else is not ordered. */
export function isNotNewer(version: string, than: string): boolean {
  if (!isDecimal(version) || !isDecimal(than)) return false;
  return version.length === than.length ? version <= than : version.length < than.length;
}

function isDecimal(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if (code < 48 || code > 57) return false;
  }
  return text !== '';
}

/** Full jitter between the two bounds, exponential in the number of failures in a row. */
export function backoffMs(
  failures: number,
  { backoffMinMs, backoffMaxMs }: ReflectorTuning,
  random: () => number = Math.random,
): number {
  const ceiling = backoffDelay(failures + 1, { baseMs: backoffMinMs, maxMs: backoffMaxMs, jitter: 0 });
  return backoffMinMs + random() * Math.max(0, ceiling - backoffMinMs);
}

/**
 * Keeps a sink in step with one resource of kube-apiserver: list, then watch from there, until the signal. No error ends
 * it. Events that the sink has seen (a replay) are dropped by their resourceVersion.
 */
export class Reflector<T extends KubeObject> {
  readonly #options: InformerOptions<T>;
  readonly #sink: Sink<T>;
  readonly #tuning: ReflectorTuning;
  readonly #path: string;
  readonly #transform: (object: T) => T;
  /** Of the newest list or event that the sink has. */
  #version: string | undefined;
  #heardAt: number | undefined;
  /** Whether the last watch brought a sign that the server has come as far as the version that is known. */
  #isHeard = false;
  /** Watches in a row that had time for that and did not, and how many may. */
  #silent = 0;
  #mostSilent = silentWatches.first;
  /** Where and when the last watch began. */
  #watched: { readonly version: string | undefined; readonly at: number } = { version: undefined, at: 0 };

  constructor(options: InformerOptions<T>, sink: Sink<T>) {
    this.#options = options;
    this.#sink = sink;
    this.#tuning = { ...defaultTuning, ...options.tuning };
    this.#path = resourcePath(options.resource, { namespace: options.namespace });
    this.#transform = options.transform ?? dropManagedFields;
  }

  /** Milliseconds since the last list, event or bookmark; undefined before the first list. */
  silenceMs(): number | undefined {
    return this.#heardAt === undefined ? undefined : performance.now() - this.#heardAt;
  }

  async run(signal: AbortSignal): Promise<void> {
    const count = new FailureCount();
    let step: Step = 'list';
    while (!signal.aborted) {
      let failures: number;
      let failure: unknown;
      try {
        if (step === 'list') await this.#list(signal);
        count.listed();
        step = 'watch';
        if (await this.#watch(signal)) {
          count.watched();
          if (this.#countSilentWatch()) step = 'list';
          continue;
        }
        failures = count.failed(step);
      } catch (error) {
        if (signal.aborted) return;
        failure = error;
        if (step === 'watch' && this.#wasAlive()) {
          count.watched();
          failures = 0;
        } else failures = count.failed(step, error);
        if (mustRelist(error) || (step === 'watch' && this.#countSilentWatch())) step = 'list';
        this.#logFailure(error, failures, step === 'list');
      }
      await sleep(this.#delayMs(failures, failure), undefined, { signal }).catch(() => undefined);
    }
  }

  /** Counts the watch that has just ended. Returns whether a list is due, since too many in a row brought no sign of life. */
  #countSilentWatch(): boolean {
    const { first, most } = silentWatches;
    if (this.#isHeard) [this.#silent, this.#mostSilent] = [0, first];
    // One that was cut before says nothing about the version.
    else if (performance.now() - this.#watched.at >= this.#tuning.silenceMs) this.#silent += 1;
    if (this.#silent < this.#mostSilent) return false;
    [this.#silent, this.#mostSilent] = [0, Math.min(most, 2 * this.#mostSilent)];
    return true;
  }

  /** Whether the last watch brought something, or lived longer than the longest backoff. */
  #wasAlive(): boolean {
    const { version, at } = this.#watched;
    return this.#version !== version || performance.now() - at > this.#tuning.backoffMaxMs;
  }

  async #list(signal: AbortSignal): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const { items, version } = await this.#listWhole(signal);
      const known = this.#version;
      const isOld = known !== undefined && version !== known && isNotNewer(version, known);
      if (!isOld || attempt >= staleLists) {
        this.#version = version;
        this.#heardAt = performance.now();
        this.#sink.replace(items);
        return;
      }
      this.#options.log?.warn({ ...this.#fields(), attempt }, 'list was older than what was seen before');
      await sleep(backoffMs(attempt, this.#tuning), undefined, { signal });
    }
  }

  async #listWhole(signal: AbortSignal): Promise<{ items: T[]; version: string }> {
    try {
      return await this.#listPages(signal, this.#tuning.pageSize);
    } catch (error) {
      if (!isSvc3Error(error, 'Expired', 'Gone')) throw error;
      // The continue token expired between two pages: in one piece it cannot.
      return this.#listPages(signal, undefined);
    }
  }

  async #listPages(signal: AbortSignal, limit: number | undefined): Promise<{ items: T[]; version: string }> {
    const { client, resource } = this.#options;
    const items: T[] = [];
    let next: string | undefined;
    for (;;) {
      const { body } = await client.request<ListPage<T>>({
        method: 'GET',
        path: this.#path,
        query: { ...this.#selectors(), limit, continue: next },
        signal,
        timeoutMs: 60_000,
        ...(this.#options.keepManagedFields === true ? {} : { shorten: cutAllManagedFields }),
      });
      for (const item of body.items ?? []) {
        // Lists of built-in kinds leave out what every watch event says.
        item.apiVersion ??= apiVersionOf(resource);
        item.kind ??= resource.kind;
        items.push(this.#transform(item));
      }
      next = body.metadata.continue;
      if (next === undefined || next === '') return { items, version: body.metadata.resourceVersion ?? '' };
    }
  }

  /** One watch from the last version seen until it ends; resolves to false where it ended at once and brought nothing, which counts as a failure. */
  async #watch(signal: AbortSignal): Promise<boolean> {
    const { watchMinMs, watchMaxMs, silenceMs, backoffMinMs } = this.#tuning;
    const started = performance.now();
    this.#watched = { version: this.#version, at: started };
    this.#isHeard = false;
    const timeoutMs = watchMinMs + Math.random() * (watchMaxMs - watchMinMs);
    const { body, cancel } = await this.#options.client.stream({
      method: 'GET',
      path: this.#path,
      query: {
        ...this.#selectors(),
        watch: true,
        allowWatchBookmarks: true,
        resourceVersion: this.#version,
        timeoutSeconds: Math.max(1, Math.round(timeoutMs / 1000)),
      },
      silenceMs,
      movable: true,
      signal,
    });
    let lines = 0;
    const onLine = (line: string): void => {
      this.#take(line);
      lines += 1;
    };
    const cut = this.#options.keepManagedFields === true ? undefined : cutManagedFields;
    const splitter = createLineSplitter(onLine, cut);
    try {
      for await (const chunk of body) {
        splitter.push(chunk);
        this.#heardAt = performance.now();
      }
    } finally {
      cancel();
    }
    return lines > 0 || performance.now() - started > backoffMinMs;
  }

  #take(line: string): void {
    const { type, object } = JSON.parse(line) as WatchEvent<T>;
    if (type === 'ERROR') throw errorOfStatus(object);
    const version = object.metadata?.resourceVersion;
    const isSeen = this.#version !== undefined && version !== undefined && isNotNewer(version, this.#version);
    // Bookmarks of a resource at rest repeat the version that is known.
    this.#isHeard ||= !isSeen || version === this.#version;
    if (version === undefined || isSeen) return;
    if (type === 'DELETED') this.#sink.remove(this.#transform(object));
    else if (type !== 'BOOKMARK') this.#sink.put(this.#transform(object));
    this.#version = version;
  }

  /** Milliseconds until the next try; a watch that brought something before it was cut is resumed within 100 ms. */
  #delayMs(failures: number, error: unknown): number {
    const retryAfter = isSvc3Error(error) ? (error.details.retryAfterSeconds ?? 0) * 1000 : 0;
    return Math.max(retryAfter, failures === 0 ? Math.random() * 100 : backoffMs(failures, this.#tuning));
  }

  #selectors() {
    const { labelSelector, fieldSelector } = this.#options;
    return { labelSelector, fieldSelector };
  }

  #fields() {
    return { resource: this.#options.resource.plural };
  }

  #logFailure(error: unknown, failures: number, needsList: boolean): void {
    const fields = { ...this.#fields(), err: messageOf(error), failures };
    if (needsList) this.#options.log?.warn(fields, 'list or watch failed');
    else this.#options.log?.debug(fields, 'watch ended');
  }
}

/** Whether the version is of no use any more. A watch that breaks in any other way is resumed from it. */
function mustRelist(error: unknown): boolean {
  return !isPassing(error) && !isSvc3Error(error, 'Unauthorized');
}

function dropManagedFields<T extends KubeObject>(object: T): T {
  if (object.metadata?.managedFields !== undefined) delete object.metadata.managedFields;
  return object;
}
