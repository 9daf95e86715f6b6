import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, startRunner, type Pod, type RunningRunner } from './harness.ts';

allowBootTime();

const soon = { timeout: 150_000, interval: 50 };

/** A disk whose copy takes a while: what cannot be compressed, in a VM without a guest. */
async function aPodWithData(): Promise<Pod> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-fault-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const disk = join(folder, 'disk.raw');
  execFileSync('sh', ['-c', 'head -c 268435456 /dev/urandom > "$1"', 'sh', disk]);
  return aPod({ graceSeconds: 2 }, disk);
}

const copies = (pod: Pod) => readdir(`${pod.root}${runnerPaths.state}/exports`).catch((): string[] => []);

/** Waits until bytes of the copy lie on the disk. */
async function untilCopying(runner: RunningRunner, id: string): Promise<void> {
  await expect.poll(() => copies(runner.pod), soon).toEqual([`${id}.qcow2.part`]);
  expect(await runner.client.getExport(id)).toMatchObject({ state: 'Copying' });
}

async function untilReady(runner: RunningRunner, id: string): Promise<void> {
  await expect.poll(() => runner.client.getExport(id), soon).toMatchObject({ state: 'Ready', progress: 100 });
  expect(await copies(runner.pod)).toEqual([`${id}.qcow2`]);
}

test('a QEMU that is killed during a copy fails the copy, leaves no half file, and the VM runs again and is copied', async () => {
  const runner = await startRunner(await aPodWithData());
  await runner.reaches({ powerState: 'Running' });
  await runner.client.startExport('commit');
  await untilCopying(runner, 'commit');
  kill(await runner.qemuPid());
  await expect.poll(() => runner.client.getExport('commit'), soon).toMatchObject({ state: 'Failed' });
  expect(await copies(runner.pod)).toEqual([]);
  await runner.reaches({ powerState: 'Running', restarts: 1 });
  // Whoever wants the copy asks again under the same name.
  await runner.client.startExport('commit');
  await untilReady(runner, 'commit');
});

test('a QEMU that answers too late does what nobody waits for any more, and its disk is copied all the same', async () => {
  const runner = await startRunner(await aPodWithData());
  await runner.reaches({ powerState: 'Running' });
  const pid = await runner.qemuPid();
  process.kill(pid, 'SIGSTOP');
  try {
    await runner.client.startExport('save');
    const late = { state: 'Failed', message: expect.stringContaining('did not answer') };
    await expect.poll(() => runner.client.getExport('save'), soon).toMatchObject(late);
    await runner.client.startExport('save');
    await untilCopying(runner, 'save');
  } finally {
    process.kill(pid, 'SIGCONT');
  }
  await untilReady(runner, 'save');
});

test('a runner that is killed during a copy knows nothing of it afterwards, leaves no half file, and copies anew', async () => {
  const pod = await aPodWithData();
  const first = await startRunner(pod);
  await first.reaches({ powerState: 'Running' });
  await first.client.startExport('save');
  await untilCopying(first, 'save');
  const qemu = await first.qemuPid();
  first.process.kill('SIGKILL');
  kill(qemu);
  await first.exitCode();
  const second = await startRunner(pod);
  await second.reaches({ powerState: 'Running' });
  expect(await copies(pod)).toEqual([]);
  await expect(second.client.getExport('save')).rejects.toMatchObject({ reason: 'NotFound' });
  await second.client.startExport('save');
  await untilReady(second, 'save');
});
