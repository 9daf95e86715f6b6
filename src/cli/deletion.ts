import type { Context } from './context.ts';

/**
 * Deletes one after the other and says so, or how it goes on (what `remove` returns); every name is tried, then the first failure is thrown.
 * Who presses Ctrl-C deletes nothing more.
 */
export async function deleteAll(
  { out, signal, ifInterrupted }: Pick<Context, 'out' | 'signal' | 'ifInterrupted'>,
  kind: string,
  names: readonly string[],
  remove: (name: string) => Promise<string | undefined | void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const [index, name] of names.entries()) {
    if (signal.aborted) {
      ifInterrupted(`deletions that have begun go on; not deleted: ${names.slice(index).join(', ')}`);
      signal.throwIfAborted();
    }
    try {
      const goesOn = await remove(name);
      await out.done(kind, name, goesOn ?? `Successfully deleted ${kind} ${name}`);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
