import type { Context } from './context.ts';
import { tellingFate } from './fate.ts';
import { eachOf } from './several.ts';

/**
 * Deletes one after the other and says so, or how it goes on (what `remove` returns); every name is tried, then the first failure is thrown, with what the
 * others say. Who presses Ctrl-C deletes nothing more.
 */
export function deleteAll(
  context: Pick<Context, 'out' | 'signal' | 'ifInterrupted' | 'noteFailure'>,
  kind: string,
  names: readonly string[],
  remove: (name: string) => Promise<string | undefined | void>,
): Promise<void> {
  const left = (rest: readonly string[]) =>
    `deletions that have begun go on; not deleted: ${rest.join(', ')}`;
  return eachOf(context, names, left, async (name) => {
    const goesOn = await tellingFate(
      remove(name),
      `the deletion of ${kind} ${name}, if it has begun, goes on`,
    );
    await context.out.done(kind, name, goesOn ?? `Successfully deleted ${kind} ${name}`);
  });
}
