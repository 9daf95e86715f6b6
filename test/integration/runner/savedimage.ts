import { createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { expect, onTestFinished } from 'vitest';
import { memoryParts } from '../../../src/api/memory.ts';
import { runnerPaths, type RunnerExport, type RunnerSpecInput } from '../../../src/api/runner.ts';
import { downloadExport } from '../../../src/runnerapi/download.ts';
import { aPod, type Pod, type RunningRunner } from './harness.ts';

/** Saves the guest with its memory, as an export of its runner. */
export async function saved(runner: RunningRunner, id: string): Promise<RunnerExport> {
  await runner.client.startExport(id, undefined, true);
  let view: RunnerExport | undefined;
  await expect
    .poll(async () => (view = await runner.client.getExport(id)), { timeout: 150_000, interval: 100 })
    .not.toMatchObject({ state: 'Copying' });
  expect(view).toMatchObject({ state: 'Ready', consistency: 'Memory' });
  return view!;
}

/** An image with memory, in the folders in which a pod has it: all that a worker gets with one ticket. */
export async function anImageOf(runner: RunningRunner, id: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-memory-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await mkdir(join(folder, 'disk'));
  await mkdir(join(folder, 'memory'));
  const { ticket, path, memoryPath } = await runner.client.exportTicket(id);
  const source = { address: '127.0.0.1', port: runner.port, fingerprint: runner.client.fingerprint() ?? '' };
  const fetch = async (from: string, to: string) => {
    const { stream } = await downloadExport({ ...source, ticket: { ticket, path: from } });
    await pipeline(stream, createWriteStream(to));
  };
  for (const part of Object.values(memoryParts))
    await fetch(`${memoryPath}/${part}`, join(folder, 'memory', part));
  await fetch(path, join(folder, 'disk/disk.qcow2'));
  await expect(fetch(path, '/dev/null')).rejects.toMatchObject({ reason: 'Gone' });
  return folder;
}

/** A pod that has the image as a node has it: one and the same for all of them. */
export async function aPodOf(image: string, spec: Partial<RunnerSpecInput> = {}): Promise<Pod> {
  const pod = await aPod({ warm: true, ...spec }, '');
  await rm(pod.root + runnerPaths.image, { recursive: true });
  await symlink(image, pod.root + runnerPaths.image);
  return pod;
}
