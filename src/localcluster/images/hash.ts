/** Names of cached content. */
import { createHash } from 'node:crypto';
import { readFile, readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';

/** SHA-256 over names and contents of files and folders (recursively, in a stable order), and over plain texts. */
export async function hashOf(paths: readonly string[], texts: readonly string[] = []): Promise<string> {
  const hash = createHash('sha256');
  const add = async (path: string, name: string): Promise<void> => {
    if ((await stat(path)).isDirectory()) {
      for (const entry of (await readdir(path)).toSorted()) await add(join(path, entry), `${name}/${entry}`);
      return;
    }
    hash
      .update(`${name}\0`)
      .update(await readFile(path))
      .update('\0');
  };
  for (const path of paths) await add(path, basename(path));
  for (const text of texts) hash.update(`${text}\0`);
  return hash.digest('hex');
}
