/** What the containers and components of the cluster wrote, kept for who reads a finding, and looked through for passwords. */
import { createReadStream } from 'node:fs';
import { copyFile, link, mkdir, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import type { Places } from '../../../src/localcluster/shared/state.ts';
import type { Canaries } from './canaries.ts';
import type { Leak } from './history.ts';

const lookMs = 5_000;

/**
 * Links the log of every container into a folder: the kubelet removes a log with its pod, the link keeps it, and it goes on
 * growing. Runs until the signal is aborted, and then adds those of the components.
 */
export async function keepLogs({ state, logs }: Places, folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(folder, { recursive: true });
  const nodes = join(state, 'nodes');
  const kept = new Set<string>();
  const look = async (): Promise<void> => {
    for (const node of await readdir(nodes))
      for (const file of await filesBelow(join(nodes, node, 'podlogs')))
        await keep(nodes, file, folder, kept);
  };
  while (!signal.aborted) {
    await look();
    await delay(lookMs, undefined, { signal }).catch(() => undefined);
  }
  await look();
  for (const file of await filesBelow(logs)) await keep(logs, file, folder, kept);
}

async function keep(root: string, file: string, folder: string, kept: Set<string>): Promise<void> {
  if (kept.has(file)) return;
  const target = join(folder, relative(root, file).replaceAll('/', '_'));
  try {
    await link(file, target);
    kept.add(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // On another file system it is what was there last time; one that is gone already had no time to say much.
    if (code === 'EXDEV') await copyFile(file, target).catch(() => undefined);
    else if (code === 'EEXIST') kept.add(file);
    else if (code !== 'ENOENT') throw error;
  }
}

async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => []);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}

/** Passwords in the logs of a folder. */
export async function leaksInLogs(folder: string, canaries: Canaries): Promise<Leak[]> {
  const found = await Promise.all(
    (await filesBelow(folder)).map(async (file) => leaksInFile(file, canaries)),
  );
  return found.flat();
}

async function leaksInFile(file: string, canaries: Canaries): Promise<Leak[]> {
  const leaks: Leak[] = [];
  for await (const line of createInterface(createReadStream(file)))
    for (const [canary, of] of canaries)
      if (line.includes(canary)) leaks.push({ at: Date.now(), of, where: `log ${file}` });
  return leaks;
}
