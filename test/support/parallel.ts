/** Runs `work` for every item, so many at once. */
export async function inParallel<T>(
  items: Iterable<T>,
  atOnce: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const queue = Iterator.from(items);
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const item of queue) await work(item);
    }),
  );
}
