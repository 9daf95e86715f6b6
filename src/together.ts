/**
 * Does both at the same time, and waits for both. Each gets a signal that ends it when the other fails, or when `signal` does.
 *
 * @throws the error of the first that failed, or the signal's reason
 */
export async function together<A, B>(
  signal: AbortSignal,
  one: (signal: AbortSignal) => Promise<A>,
  other: (signal: AbortSignal) => Promise<B>,
): Promise<[A, B]> {
  const failing = new AbortController();
  const ending = AbortSignal.any([signal, failing.signal]);
  const works = [one(ending), other(ending)] as const;
  for (const work of works) work.catch((error: unknown) => failing.abort(error));
  await Promise.allSettled(works);
  ending.throwIfAborted();
  return Promise.all(works);
}
