import type { Output } from './output.ts';

/** Deletes one after the other and says so, or how it goes on (what `remove` returns); every name is tried, then the first failure is thrown. */
export async function deleteAll(
  out: Output,
  kind: string,
  names: readonly string[],
  remove: (name: string) => Promise<string | undefined | void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const name of names) {
    try {
      const goesOn = await remove(name);
      await out.done(kind, name, goesOn ?? `Successfully deleted ${kind} ${name}`);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
