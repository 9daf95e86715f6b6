/** Programs that stay although the cache that they were built into is deleted. */
import { copyFile, link, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tools } from './tools.ts';

/** The same tools, with these programs in the folder too (made when missing; it must not hold them yet) and taken from there. */
export async function keepPrograms(
  tools: Tools,
  programs: readonly string[],
  folder: string,
): Promise<Tools> {
  await mkdir(folder, { recursive: true });
  for (const program of programs) await keep(tools.path(program), join(folder, program));
  return {
    // First: programs look for each other on the PATH.
    folders: [folder, ...tools.folders],
    path: (program) => (programs.includes(program) ? join(folder, program) : tools.path(program)),
  };
}

/** A hard link costs nothing, but does not lead to another file system. */
async function keep(from: string, to: string): Promise<void> {
  await link(from, to).catch(() => copyFile(from, to));
}
