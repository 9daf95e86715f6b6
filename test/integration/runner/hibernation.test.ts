import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { appendFile, mkdir, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { metricsPort } from '../../../src/api/meta.ts';
import { runnerPaths } from '../../../src/api/runner.ts';
import { createGuestAgent } from '../../../src/runner/agent.ts';
import { kill } from '../../support/processes.ts';
import { type SmallVolume, smallVolume } from '../../support/smallvolume.ts';
import { allowBootTime, aPod, inNewPod, startRunner, type Pod, type RunningRunner } from './harness.ts';
import { anImageOf, aPodOf, saved } from './savedimage.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;
const asleep = { powerState: 'Suspended', suspendKind: 'Disk' } as const;
const evicted = { onEviction: 'Suspend', suspendSeconds: 60 } as const;

const anyMetricsPort = { SVC3_METRICS_PORT: '0' };

/** A guest with a process that a boot would end. */
async function aGuest(pod: Pod): Promise<RunningRunner> {
  const runner = await startRunner(pod);
  await runner.reaches(up);
  await runner.guest('sleep 100000 < /dev/null > /dev/null 2>&1 &');
  return runner;
}

const seen = (runner: RunningRunner) =>
  runner.guest('if ps | grep -q "[s]leep 100000"; then echo goes on; else echo booted; fi');

async function ended(runner: RunningRunner): Promise<void> {
  runner.process.kill('SIGTERM');
  expect(await runner.exitCode()).toBe(0);
}

const memoryOf = ({ root }: Pod) => stat(`${root}${runnerPaths.state}/memory`);

test('a guest that is suspended on its disk goes on in another pod, and its memory is used once', async () => {
  const first = await aGuest(await aPod());
  const qemu = await first.qemuPid();
  const request = { action: 'suspend', suspendTo: 'Disk' } as const;
  expect(await first.client.power(request)).toMatchObject(asleep);
  await expect(stat(`/proc/${qemu}`)).rejects.toThrow('ENOENT');
  // What was asked for is asked for again by an operator that did not get the answer.
  expect(await first.client.power(request)).toMatchObject(asleep);
  await expect(first.client.resize(2 ** 31)).rejects.toMatchObject({ reason: 'Conflict' });
  await ended(first);

  const second = await startRunner(inNewPod(first.pod, { powerState: 'Suspended' }));
  await second.reaches(asleep);
  expect(await second.client.power({ action: 'resume' })).toMatchObject({ powerState: 'Running' });
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
  const time = Number(await second.guest('date +%s'));
  expect(Math.abs(time - Date.now() / 1000)).toBeLessThan(30);

  kill(await second.qemuPid());
  await second.reaches({ ...up, restarts: 1 });
  expect(await seen(second)).toBe('booted\n');
});

test('the end of the pod suspends a guest that runs, and one that is suspended in memory', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  expect(await memoryOf(first.pod)).toBeDefined();
  const second = await startRunner(inNewPod(first.pod));
  expect(await second.reaches(up)).toMatchObject({
    warmStart: { fromMemory: true, reason: 'StartedFromMemory' },
  });
  expect(await seen(second)).toBe('goes on\n');
  await second.client.power({ action: 'suspend' });
  await ended(second);
  const third = await startRunner(inNewPod(first.pod, { powerState: 'Suspended' }));
  await third.reaches(asleep);
  await third.client.power({ action: 'resume' });
  await third.reaches(up);
  expect(await seen(third)).toBe('goes on\n');
});

test('the end of the pod suspends no guest whose file systems are frozen for a copy', async () => {
  const first = await aGuest(await aPod(evicted));
  const written = async () => (await stat(`${first.pod.root}${runnerPaths.state}/disk.qcow2`)).mtimeMs;
  await first.guest('sync; head -c 16777216 /dev/urandom > /root/noise');
  const before = await written();
  await first.client.startExport('image');
  // The freeze begins with what the guest has not written yet.
  await expect.poll(written, { interval: 5 }).not.toBe(before);
  await ended(first);
  const second = await startRunner(inNewPod(first.pod));
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
  expect(await second.guest('echo written > /root/file; sync; cat /root/file')).toBe('written\n');
});

test('the end of the pod gives up a copy of the disk that is under way, and suspends the guest', async () => {
  // So large that its copy takes a minute, although there is next to nothing in it.
  const first = await aGuest(await aPod({ ...evicted, diskBytes: 2 ** 40 }));
  await first.client.startExport('image');
  const progress = async () => (await first.client.getExport('image')).progress;
  await expect.poll(progress, { timeout: 150_000, interval: 50 }).toBeGreaterThan(0);
  await ended(first);
  expect(first.log()).toContain('export failed: the pod of the VM is being ended');
  const second = await startRunner(inNewPod(first.pod));
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
});

test('a guest that a copy has left frozen is thawed when it goes on, wherever its memory was', async () => {
  const runner = await aGuest(await aPod());
  const agent = createGuestAgent(`${runner.pod.root}${runnerPaths.run}/agent.sock`);
  const ask = (command: string) => agent.execute(command, undefined, { timeoutMs: 60_000 });
  for (const suspendTo of ['Memory', 'Disk'] as const) {
    expect(await ask('guest-fsfreeze-freeze')).toBeGreaterThan(0);
    await runner.client.power({ action: 'suspend', suspendTo });
    await runner.client.power({ action: 'resume' });
    await expect.poll(() => ask('guest-fsfreeze-status'), { timeout: 60_000 }).toBe('thawed');
    expect(await runner.guest('echo written > /root/file; sync; cat /root/file')).toBe('written\n');
    expect(await seen(runner)).toBe('goes on\n');
  }
});

test('a guest that is not suspended in time shuts down, and its next start says why it booted', async () => {
  const first = await aGuest(await aPod({ ...evicted, suspendSeconds: 0 }));
  await first.guest('echo written > /root/file');
  await ended(first);
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
  const second = await startRunner(inNewPod(first.pod));
  expect(await second.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, reason: 'NotSuspended' },
  });
  expect(await second.guest('cat /root/file')).toBe('written\n');
  await second.client.power({ action: 'stop' });
  await ended(second);
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
});

test('a stop asked of a pod that is being ended has its guest shut down, not suspended', async () => {
  const first = await aGuest(await aPod(evicted));
  await first.guest('echo written > /root/file');
  first.process.kill('SIGTERM');
  await first.reaches({ reason: 'ShuttingDown' });
  await first.client.power({ action: 'stop' });
  expect(await first.exitCode()).toBe(0);
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
  const second = await startRunner(inNewPod(first.pod));
  await second.reaches(up);
  expect(await seen(second)).toBe('booted\n');
  expect(await second.guest('cat /root/file')).toBe('written\n');
});

test('a guest that ends by itself before the end of its pod suspends it is not said to have been shut down', async () => {
  const first = await aGuest(await aPod(evicted));
  const qemu = await first.qemuPid();
  first.process.kill('SIGTERM');
  await first.reaches({ reason: 'ShuttingDown' });
  kill(qemu);
  expect(await first.exitCode()).toBe(0);
  const second = await startRunner(inNewPod(first.pod));
  expect((await second.reaches(up)).warmStart).toBeUndefined();
});

test('a guest that is to be stopped goes on first, so that nothing of its disk is lost', async () => {
  const first = await aGuest(await aPod(evicted));
  // In the memory of the guest alone.
  await first.guest('echo written > /root/file');
  await ended(first);
  const second = await startRunner(inNewPod(first.pod, { powerState: 'Stopped' }));
  await second.reaches({ powerState: 'Stopped', reason: 'Requested' });
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
  await second.client.power({ action: 'start' });
  await second.reaches(up);
  expect(await seen(second)).toBe('booted\n');
  expect(await second.guest('cat /root/file')).toBe('written\n');
});

test('a guest that is to be stopped and cannot go on stays asleep, and its disk is not saved without it', async () => {
  const first = await aGuest(await aPod(evicted));
  await first.guest('echo written > /root/file');
  await ended(first);
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const ports = [{ podPort: (taken.address() as AddressInfo).port, guestPort: 80 }];
  const second = await startRunner(inNewPod(first.pod, { powerState: 'Stopped', ports }));
  const asleep = { powerState: 'Suspended', suspendKind: 'Disk' } as const;
  await second.reaches({ ...asleep, reason: 'Requested' });
  await expect(second.client.power({ action: 'stop' })).rejects.toThrow(
    /has to go on from its memory .*port/,
  );
  expect(await second.client.state()).toMatchObject(asleep);
  // Who asks for it by another verb is told the same.
  await second.client.power({ action: 'resume' });
  await second.reaches({ powerState: 'Failed', reason: 'PortInUse', retrying: true });
  await expect(second.client.power({ action: 'stop' })).rejects.toThrow('has to go on from its memory');
  expect(await second.client.state()).toMatchObject(asleep);
  await second.client.startExport('image');
  await expect
    .poll(() => second.client.getExport('image'))
    .toMatchObject({ state: 'Failed', message: expect.stringContaining('suspended on its disk') });
  expect(await memoryOf(first.pod)).toBeDefined();
  taken.close();
  expect(await second.client.power({ action: 'stop' })).toMatchObject({ powerState: 'Stopped' });
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
  await second.client.power({ action: 'start' });
  await second.reaches(up);
  expect(await second.guest('cat /root/file')).toBe('written\n');
});

test('a memory that does not fit is not used: the guest boots, and says why', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  const larger = await startRunner(inNewPod(first.pod, { memoryMiB: 224 }));
  expect(await larger.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, reason: 'MachineDiffers' },
  });
  expect(await seen(larger)).toBe('booted\n');
  await ended(larger);
  // Somebody has the claim in another pod.
  await appendFile(`${first.pod.root}${runnerPaths.state}/disk.qcow2`, '\0');
  const changed = await startRunner(inNewPod(first.pod, { memoryMiB: 224 }));
  expect(await changed.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, reason: 'DiskChanged' },
  });
  await ended(changed);
  const other = await startRunner({
    ...inNewPod(first.pod, { memoryMiB: 224 }),
    spec: { ...first.pod.spec, memoryMiB: 224, vm: { ...first.pod.spec.vm, uid: randomUUID() } },
  });
  expect(await other.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, message: expect.stringContaining('the VM that had the disk before') },
  });
});

test('a guest whose CD was taken out goes on in a pod that has none, with an empty drive until it boots again', async () => {
  const pod = await aPod({ ...evicted, iso: true });
  await writeFile(`${pod.root}${runnerPaths.iso}/disk/medium.iso`, Buffer.alloc(64 * 1024));
  const first = await aGuest(pod);
  await first.client.eject();
  await first.client.power({ action: 'suspend', suspendTo: 'Disk' });
  await ended(first);
  const second = await startRunner(inNewPod(pod, { iso: false }));
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true }, iso: false });
  expect(await seen(second)).toBe('goes on\n');
  // Where its memory would go, no VM has such a drive.
  await expect(second.client.startExport('image', undefined, true)).rejects.toThrow('CD');
  // The drive is one of the machine that the memory is written of next.
  await ended(second);
  const third = await startRunner(inNewPod(pod, { iso: false }));
  expect(await third.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(third)).toBe('goes on\n');
  expect(await third.qemuArguments()).toContain('id=cd,');
  await third.client.power({ action: 'restart', restartRequest: 'r1' });
  await third.reaches({ ...up, restartRequest: 'r1' });
  expect(await third.qemuArguments()).not.toContain('id=cd,');
});

test('a guest goes on from its memory, and from that of its image, where metrics were turned off since', async () => {
  const original = await startRunner(await aPod({ metricsPort }), anyMetricsPort);
  await original.reaches(up);
  await saved(original, 'image');
  const first = await startRunner(await aPodOf(await anImageOf(original, 'image'), evicted));
  expect(await first.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  await first.guest('sleep 100000 < /dev/null > /dev/null 2>&1 &');
  await ended(first);
  const second = await startRunner(inNewPod(first.pod));
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
  await second.client.power({ action: 'restart', restartRequest: 'r1' });
  await second.reaches({ ...up, restartRequest: 'r1' });
  expect(await second.qemuArguments()).not.toContain('balloon');
});

test('a guest goes on where metrics were turned on since: what a balloon would tell is not known of it', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  const second = await startRunner(inNewPod(first.pod, { metricsPort }), anyMetricsPort);
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
  const { memory, cpu } = await second.client.usage();
  expect(memory.availableBytes).toBeUndefined();
  expect(cpu.seconds).toBeGreaterThan(0);
});

test('a runner that is killed before its guest goes on leaves the memory; a revert discards it', async () => {
  const first = await aGuest(await aPod(evicted));
  const state = `${first.pod.root}${runnerPaths.state}/state.json`;
  await first.client.power({ action: 'suspend', suspendTo: 'Disk' });
  kill(first.process.pid ?? 0);
  await first.exitCode();
  expect(JSON.parse(await readFile(state, 'utf8'))).toHaveProperty('memory');
  const again = await startRunner(first.pod);
  await again.reaches(asleep);
  await again.client.power({ action: 'revert', revertRequest: 'r1' });
  await again.reaches(up);
  expect(await seen(again)).toBe('booted\n');
  await expect(memoryOf(first.pod)).rejects.toThrow('ENOENT');
});

test('what a suspension that was killed has left takes no room in the next pod', async () => {
  const pod = await aPod(evicted);
  const state = pod.root + runnerPaths.state;
  await mkdir(state, { recursive: true });
  for (const name of ['memory', 'memory.new']) await writeFile(`${state}/${name}`, 'half');
  const first = await aGuest(pod);
  expect((await readdir(state)).filter((name) => name.startsWith('memory'))).toEqual([]);
  await ended(first);
  const second = await startRunner(inNewPod(pod));
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
});

const run = promisify(execFile);
const mebibyte = 2 ** 20;

/** The volume of the pod's disk, of this size. */
async function onSmallVolume({ root }: Pod, bytes: number): Promise<SmallVolume> {
  const volume = await smallVolume(bytes);
  onTestFinished(() => volume.remove());
  const state = root + runnerPaths.state;
  await mkdir(state, { recursive: true });
  await run('mount', ['--bind', volume.path, state]);
  onTestFinished(async () => void (await run('umount', ['-l', state])));
  return volume;
}

test('a memory that the volume of the disk has no room for is not written: that is told, the guest goes on, and is suspended once there is', async () => {
  const pod = await aPod();
  const volume = await onSmallVolume(pod, 64 * mebibyte);
  const runner = await aGuest(pod);
  const request = { action: 'suspend', suspendTo: 'Disk' } as const;
  await expect(runner.client.power(request)).rejects.toMatchObject({
    reason: 'Conflict',
    message: expect.stringMatching(
      /^the disk's volume has no room for the memory of the guest: \d+ MiB are needed, \d+ MiB are free$/,
    ),
  });
  expect(await runner.client.state()).toMatchObject(up);
  expect(await seen(runner)).toBe('goes on\n');
  await expect(memoryOf(pod)).rejects.toThrow('ENOENT');
  await volume.resize(512 * mebibyte);
  expect(await runner.client.power(request)).toMatchObject(asleep);
});

test('a guest that went on from the memory of its image needs room for all of it, however little it has come to yet', async () => {
  const original = await aGuest(await aPod());
  await saved(original, 'image');
  const pod = await aPodOf(await anImageOf(original, 'image'));
  // More than the guest has touched, less than its memory.
  const volume = await onSmallVolume(pod, 208 * mebibyte);
  const copy = await startRunner(pod);
  expect(await copy.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  const request = { action: 'suspend', suspendTo: 'Disk' } as const;
  await expect(copy.client.power(request)).rejects.toThrow(`${192 + 32} MiB are needed`);
  expect(await seen(copy)).toBe('goes on\n');
  await volume.resize(512 * mebibyte);
  expect(await copy.client.power(request)).toMatchObject(asleep);
});

test('a memory that cannot be written is told in the words of QEMU, and the guest goes on', async () => {
  const pod = await aPod();
  const volume = await onSmallVolume(pod, 512 * mebibyte);
  const runner = await aGuest(pod);
  // There is room, and no more files can be made.
  const { files, ffree } = await statfs(volume.path);
  await run('mount', ['-o', `remount,nr_inodes=${files - ffree}`, volume.path]);
  // As one that stood still for long.
  await runner.guest('date -s @1000000000');
  await expect(runner.client.power({ action: 'suspend', suspendTo: 'Disk' })).rejects.toThrow(
    /memory\.new.*: No space left on device$/,
  );
  expect(await runner.client.state()).toMatchObject({ powerState: 'Running' });
  const behind = async () => Math.abs(Number(await runner.guest('date +%s')) - Date.now() / 1000);
  await expect.poll(behind, { timeout: 60_000 }).toBeLessThan(30);
  expect(await seen(runner)).toBe('goes on\n');
});

test('a start that fails for another reason keeps the memory for the next try', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const ports = [{ podPort: (taken.address() as AddressInfo).port, guestPort: 80 }];
  const second = await startRunner(inNewPod(first.pod, { ports }));
  await second.reaches({ powerState: 'Failed', reason: 'PortInUse' });
  expect(await memoryOf(first.pod)).toBeDefined();
  taken.close();
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
});

test('a guest that cannot be written down as going on stays where it is, until it can', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  // As on a volume without room.
  const inTheWay = `${first.pod.root}${runnerPaths.state}/state.json.new`;
  await mkdir(inTheWay);
  const second = await startRunner(inNewPod(first.pod));
  await second.reaches({ powerState: 'Failed', retrying: true });
  expect(await memoryOf(first.pod)).toBeDefined();
  await rm(inTheWay, { recursive: true });
  expect(await second.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(second)).toBe('goes on\n');
});

test('a pod that ends before its guest goes on leaves the memory to the next', async () => {
  const first = await aGuest(await aPod(evicted));
  await ended(first);
  const second = await startRunner(inNewPod(first.pod));
  await expect.poll(() => second.qemuArguments(), { timeout: 60_000, interval: 5 }).toMatch(/^qemu-system/);
  const qemu = await second.qemuPid();
  process.kill(qemu, 'SIGSTOP');
  const state = `${first.pod.root}${runnerPaths.state}/state.json`;
  expect(JSON.parse(await readFile(state, 'utf8'))).toHaveProperty('memory');
  second.process.kill('SIGTERM');
  await expect.poll(() => second.log()).toContain('shutting the guest down');
  process.kill(qemu, 'SIGCONT');
  expect(await second.exitCode()).toBe(0);
  const third = await startRunner(inNewPod(first.pod));
  expect(await third.reaches(up)).toMatchObject({ warmStart: { fromMemory: true } });
  expect(await seen(third)).toBe('goes on\n');
});
