/** Files that say what has been brought about, so that it is not done a second time. */
import { readFile, rm } from 'node:fs/promises';
import { writeSecret } from '../shared/state.ts';

/**
 * Does the work unless the file says that it was done for `wanted` already; then false. While the work is under way, and after it
 * has failed, the file says nothing: what there is then is neither what was before nor what was wanted.
 */
export async function unlessMarked(
  file: string,
  wanted: string,
  work: () => Promise<void>,
): Promise<boolean> {
  if ((await readFile(file, 'utf8').catch(() => '')) === wanted) return false;
  await rm(file, { force: true });
  await work();
  await writeSecret(file, wanted);
  return true;
}
