/** How many events are told about one object, as client-go's EventCorrelator limits them. */

/** What client-go's caches hold. */
export const seriesLimit = 4_096;

/** Events about one object that tell neither of a failure nor of a start: client-go's EventSourceObjectSpamFilter, but sooner refilled. */
const burst = 25;
const refillMs = 60_000;

/** Different messages of one reason about one object, and the time in which they are similar: client-go's EventAggregator. */
const similarMost = 10;
const similarMs = 10 * 60_000;

/** A token bucket per object, so that a controller gone wild about one does not silence the others. */
export function createBuckets(): (key: string) => boolean {
  const buckets = new Map<string, { tokens: number; at: number }>();
  return (key) => {
    const now = performance.now();
    const bucket = buckets.get(key) ?? { tokens: burst, at: now };
    bucket.tokens = Math.min(burst, bucket.tokens + (now - bucket.at) / refillMs);
    bucket.at = now;
    buckets.delete(key);
    buckets.set(key, bucket);
    const [oldest] = buckets.keys();
    if (buckets.size > seriesLimit && oldest !== undefined) buckets.delete(oldest);
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  };
}

/** Counts the different messages of one reason about one object; says whether there are too many to be told one by one. */
export function createSimilarity(): (key: string) => boolean {
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
