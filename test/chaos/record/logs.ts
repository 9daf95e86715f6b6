/** Passwords in what the containers of the cluster wrote. */
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Canaries } from './canaries.ts';
import type { Leak } from './history.ts';

/** @param state - folder of the local cluster's state */
export async function leaksInLogs(state: string, canaries: Canaries): Promise<Leak[]> {
  const nodes = await readdir(join(state, 'nodes'));
  const files = await Promise.all(nodes.map((node) => filesBelow(join(state, 'nodes', node, 'podlogs'))));
  const found = await Promise.all(files.flat().map((file) => leaksInFile(file, canaries)));
  return found.flat();
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

async function leaksInFile(file: string, canaries: Canaries): Promise<Leak[]> {
  const leaks: Leak[] = [];
  for await (const line of createInterface(createReadStream(file)))
    for (const [canary, of] of canaries)
      if (line.includes(canary)) leaks.push({ at: Date.now(), of, where: `log ${file}` });
  return leaks;
}
