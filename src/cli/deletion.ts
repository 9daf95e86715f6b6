import type { Output } from './output.ts';

/** Deletes one after the other and says so; every name is tried, then the first failure is thrown. */
export async function deleteAll(
  out: Output,
  kind: string,
  names: readonly string[],
  remove: (name: string) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const name of names) {
    try {
      await remove(name);
      await out.done(kind, name, `Successfully deleted ${kind} ${name}`);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}
