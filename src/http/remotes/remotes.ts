import { setTimeout as delay } from 'node:timers/promises';
import { Svc3Error } from '../../errors.ts';
import type { NamespaceAccess } from '../../controllers/image/registries.ts';
import { registryAddress } from '../../registry/reference.ts';
import { ExpiringMap } from '../call/expiringmap.ts';
import { RemoteListing, type RemoteRegistry } from './remotelisting.ts';
import type { RemoteCatalog } from '../call/services.ts';

export interface CatalogTimes {
  /** So long a caller waits for registries; what has come by then is the answer. */
  readonly timeoutMs: number;
  /** So long a registry may take in all, in the background. */
  readonly listingMs: number;
  /** How long a list holds, and how long a failure. */
  readonly keepMs: number;
  readonly keepFailureMs: number;
}

const defaultTimes: CatalogTimes = {
  timeoutMs: 8_000,
  listingMs: 60_000,
  keepMs: 60_000,
  keepFailureMs: 10_000,
};

/** Each has at most 2,000 images: 40 MB for all. */
const mostKept = 100;
/** Of one registry at the same time, with four calls each; others wait for their turn. */
const listingsAtOnce = 2;

interface Kept {
  readonly listing: RemoteListing;
  readonly done: Promise<unknown>;
}

/**
 * What the chart's `remoteRegistries` hold, as the namespace's own credentials let one see it. A registry is listed once for all who
 * ask within a minute with the same credential, however many they are; namespaces without one share an anonymous list. One that is
 * slow or away does not hold up the others.
 */
export function createRemoteCatalog(
  registries: readonly string[],
  look: (registry: string, namespace: string) => Promise<NamespaceAccess>,
  given: Partial<CatalogTimes> = {},
): RemoteCatalog {
  const times = { ...defaultTimes, ...given };
  const entries = registries.map(entryOf);
  const kept = new ExpiringMap<Kept>(mostKept);
  const turns = new Map(entries.map(({ host }) => [host, createTurns(listingsAtOnce)]));

  async function listingOf(entry: RemoteRegistry, namespace: string): Promise<Kept> {
    const access = await look(entry.host, namespace);
    const key = `${entry.host}/${entry.path} ${access.version}`;
    const known = kept.get(key);
    if (known !== undefined) return known;
    const listing = new RemoteListing(entry);
    const inTurn = turns.get(entry.host) ?? createTurns(listingsAtOnce);
    const work = inTurn(() => listing.run(async () => access.open(), AbortSignal.timeout(times.listingMs)));
    const made: Kept = {
      listing,
      done: work.then(() => kept.set(key, made, listing.hasFailed ? times.keepFailureMs : times.keepMs)),
    };
    // Until it is done nobody begins another.
    kept.set(key, made, Number.POSITIVE_INFINITY);
    return made;
  }

  return {
    async list(namespace, signal) {
      const asked = await Promise.all(entries.map((entry) => listingOf(entry, namespace)));
      await withTimeout(
        asked.map(({ done }) => done),
        times.timeoutMs,
        signal,
      );
      const listings = asked.map(({ listing }) => listing);
      const items = listings.flatMap(({ images }) => images);
      const incomplete = listings.flatMap(({ missing }) => missing);
      if (items.length === 0 && listings.length > 0 && listings.every(({ hasFailed }) => hasFailed))
        throw new Svc3Error('BadGateway', incomplete.join('; '));
      return { items, incomplete };
    },
  };
}

/** `[http[s]://]host[:port][/path]` of the chart. */
function entryOf(text: string): RemoteRegistry {
  const { registry: host, path } = registryAddress(text);
  return { host, path };
}

/** Waits for all of them, no longer than a time and the caller. */
async function withTimeout(
  all: readonly Promise<unknown>[],
  timeoutMs: number,
  signal: AbortSignal,
): Promise<void> {
  const stop = new AbortController();
  const enough = delay(timeoutMs, undefined, { signal: AbortSignal.any([signal, stop.signal]) });
  await Promise.race([Promise.all(all), enough]).finally(() => {
    stop.abort();
    enough.catch(() => undefined);
  });
}

/** Runs so many tasks at the same time, the others in the order of asking. */
function createTurns(atOnce: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task) => {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await task();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
