import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { ejectedRefusal, memoryParts, type SavedMachine } from '../../../src/api/memory.ts';
import { runnerPaths } from '../../../src/api/runner.ts';
import { downloadExport } from '../../../src/runnerapi/download.ts';
import { createGuestAgent } from '../../../src/runner/agent.ts';
import { testGuestDisk } from '../../support/guest.ts';
import { givingHook } from '../../support/hook.ts';
import { kill } from '../../support/processes.ts';
import { smallVolume } from '../../support/smallvolume.ts';
import { allowBootTime, aPod, placeIso, startRunner, type RunningRunner } from './harness.ts';
import { anImageOf, aPodOf, saved } from './savedimage.ts';

allowBootTime();

const run = promisify(execFile);
const up = { powerState: 'Running', guestReachable: true } as const;

/** A worker whose connection broke goes on at a byte; how the runner packs what it sends is no matter then. */
async function ramFrom(runner: RunningRunner, id: string, start: number): Promise<Buffer> {
  const { ticket, memoryPath } = await runner.client.exportTicket(id);
  const { stream } = await downloadExport({
    address: '127.0.0.1',
    port: runner.port,
    fingerprint: runner.client.fingerprint() ?? '',
    ticket: { ticket, path: `${memoryPath}/${memoryParts.ram}` },
    start,
  });
  return buffer(stream);
}

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-memory-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function endContainer(runner: RunningRunner): Promise<void> {
  const qemu = await runner.qemuPid();
  kill(runner.process.pid ?? 0);
  kill(qemu);
  await runner.exitCode();
}

const warm = { fromMemory: true, reason: 'StartedFromMemory' };

test('guests go on from a saved memory, each as its own; they boot from the disk where they have run or the memory does not fit', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  await original.guest(givingHook());
  await original.guest(
    'echo before > /root/file; sync; echo kept > /tmp/kept; sleep 100000 > /dev/null 2>&1 & echo $! > /tmp/pid',
  );
  const view = await saved(original, 'image');
  expect(view.stoppedMs).toBeGreaterThan(0);
  await original.guest('echo after > /root/file; echo after > /tmp/kept; sync');
  expect((await original.client.state()).powerState).toBe('Running');
  const half = 96 * 1024 * 1024;
  const rest = await ramFrom(original, 'image', half);
  const image = await anImageOf(original, 'image');
  expect(rest.equals((await readFile(join(image, 'memory/ram'))).subarray(half))).toBe(true);
  const machine = JSON.parse(await readFile(join(image, 'memory/machine.json'), 'utf8')) as SavedMachine;
  expect(machine).toMatchObject({ accelerator: 'tcg', cpuModel: 'max', memoryMiB: 192, cpu: 1 });
  expect((await stat(join(image, 'memory/ram'))).size).toBe(192 * 1024 * 1024);

  const copy = await startRunner(await aPodOf(image, { metadata: [], hostname: 'copy' }));
  expect(await copy.reaches(up)).toMatchObject({ warmStart: warm });
  const seen = 'cat /root/file /tmp/kept; kill -0 $(cat /tmp/pid) && echo runs';
  expect(await copy.guest(seen)).toBe('before\nkept\nruns\n');
  await expect.poll(() => copy.guest('hostname')).toBe('copy\n');

  // What goes on from a memory can be saved again.
  await copy.guest('echo second > /tmp/kept; echo second > /root/file');
  await saved(copy, 'again');
  const again = await startRunner(await aPodOf(await anImageOf(copy, 'again')));
  expect(await again.reaches(up)).toMatchObject({ warmStart: warm });
  expect(await again.guest(seen)).toBe('second\nsecond\nruns\n');

  // The memory belongs to the disk of the image, and to no disk that a guest has written.
  await copy.guest('sync');
  await copy.client.power({ action: 'restart' });
  expect(await copy.reaches(up)).toMatchObject({ warmStart: { fromMemory: false, reason: 'MemoryUsed' } });
  expect(await copy.guest('cat /root/file; test -e /tmp/kept || echo gone')).toBe('second\ngone\n');
  await copy.client.power({ action: 'revert', revertRequest: 'r1' });
  expect(await copy.reaches(up)).toMatchObject({ warmStart: warm });
  expect(await copy.guest(seen)).toBe('before\nkept\nruns\n');
  await endContainer(copy);
  const restarted = await startRunner(copy.pod);
  expect(await restarted.reaches(up)).toMatchObject({ warmStart: { reason: 'MemoryUsed' } });

  const larger = await startRunner(await aPodOf(image, { memoryMiB: 224 }));
  expect(await larger.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, reason: 'MachineDiffers', message: expect.stringContaining('192') },
  });
  expect(await larger.guest('cat /root/file')).toBe('before\n');
});

test('a disk of the size of the image fits its memory, also where that is no whole number of MiB', async () => {
  const disk = join(await aFolder(), 'disk.qcow2');
  await copyFile(await testGuestDisk(), disk);
  await run('qemu-img', ['resize', '-q', disk, '+512']);
  const original = await startRunner(await aPod({}, disk));
  await original.reaches(up);
  const { virtualSize = 0 } = await saved(original, 'image');
  expect(virtualSize % 2 ** 20).toBe(512);
  const image = await anImageOf(original, 'image');
  const copy = await startRunner(await aPodOf(image, { diskBytes: virtualSize }));
  expect(await copy.reaches(up)).toMatchObject({ warmStart: warm, diskSize: virtualSize });
});

test('a guest that writes to its memory while it is saved goes on in the copy where it was stopped', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  const count = 'i=0; while :; do i=$((i+1)); echo $i >> /tmp/numbers; done';
  await original.guest(`(${count}) > /dev/null 2>&1 & echo $! > /tmp/pid`);
  await saved(original, 'image');
  const copy = await startRunner(await aPodOf(await anImageOf(original, 'image')));
  await copy.reaches(up);
  const lines = async () => Number(await copy.guest('wc -l < /tmp/numbers'));
  const before = await lines();
  await expect.poll(lines).toBeGreaterThan(before);
  const check = `kill $(cat /tmp/pid); awk '$1 != NR { print; exit }' /tmp/numbers; echo checked`;
  expect(await copy.guest(check)).toBe('checked\n');
});

test('a guest counts as running when its hook has ended, and what that has not done is said', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  await original.guest(givingHook('sleep 3; cat > /tmp/told; ! grep -q \'"fail"\' /tmp/told'));
  await saved(original, 'image');
  const image = await anImageOf(original, 'image');
  const copy = await startRunner(await aPodOf(image, { metadata: [] }));
  expect(await copy.reaches({ powerState: 'Running' })).toMatchObject({ warmStart: warm });
  expect(await copy.guest('cat /tmp/told')).toContain(copy.pod.spec.vm.uid);
  await endContainer(copy);
  const failed = await startRunner(await aPodOf(image, { metadata: [{ name: 'fail', value: 'yes' }] }));
  const shared = (why: string) => ({
    fromMemory: true,
    reason: 'IdentityShared',
    message: expect.stringContaining(`/usr/lib/svc3/woken has not done its work (${why}`),
  });
  expect(await failed.reaches(up)).toMatchObject({ warmStart: shared('exit code 1): its machine-id') });
  await endContainer(failed);
  await original.guest('rm /usr/lib/svc3/woken; sync');
  await saved(original, 'without');
  const without = await startRunner(await aPodOf(await anImageOf(original, 'without')));
  const { warmStart } = await without.reaches(up);
  expect(warmStart).toMatchObject(shared(''));
  expect(warmStart?.message).toContain('No such file');
});

test('a guest whose hook is still at work when its pod is ended is shut down as any other', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  await original.guest(givingHook('sleep 100'));
  await saved(original, 'image');
  const copy = await startRunner(await aPodOf(await anImageOf(original, 'image'), { graceSeconds: 60 }));
  expect(await copy.reaches({ guestStarted: true })).not.toMatchObject({ powerState: 'Running' });
  copy.process.kill('SIGTERM');
  expect(await copy.exitCode()).toBe(0);
  expect(copy.log()).toMatch(/"by":"guest[^"]*","msg":"QEMU ended"/);
});

test('a state that QEMU does not take costs nothing but a boot, and so does an image that has no memory', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  await saved(original, 'image');
  const image = await anImageOf(original, 'image');
  await endContainer(original);
  const state = join(image, 'memory/state');
  await truncate(state, Math.floor((await stat(state)).size / 2));
  const broken = await startRunner(await aPodOf(image));
  expect(await broken.reaches(up)).toMatchObject({
    warmStart: { fromMemory: false, reason: 'MemoryNotLoaded' },
  });
  await endContainer(broken);
  await rm(join(image, 'memory'), { recursive: true });
  const none = await startRunner(await aPodOf(image));
  expect(await none.reaches(up)).toMatchObject({ warmStart: { fromMemory: false, reason: 'MemoryMissing' } });
});

test('under UEFI the firmware goes on with its variables', async () => {
  // The guest has no loader for it: it is the firmware that runs.
  const spec = { firmware: 'uefi', readiness: { none: {}, timeoutSeconds: 1 } } as const;
  const original = await startRunner(await aPod(spec));
  await original.reaches({ powerState: 'Running' });
  await saved(original, 'image');
  const copy = await startRunner(await aPodOf(await anImageOf(original, 'image'), spec));
  await copy.reaches({ powerState: 'Running' });
  expect((await copy.client.state()).warmStart).toMatchObject({ fromMemory: true });
});

test('a guest without an agent goes on, and its runner says that it could not be told who it is', async () => {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  const agent = createGuestAgent(`${original.pod.root}/run/vm/agent.sock`);
  await agent.send('guest-exec', { path: '/bin/killall', arg: ['qemu-ga'] });
  await expect.poll(() => agent.isAnswering(), { timeout: 150_000 }).toBe(false);
  await saved(original, 'image');
  const copy = await startRunner(await aPodOf(await anImageOf(original, 'image')));
  expect(await copy.reaches(up)).toMatchObject({ warmStart: { fromMemory: true, reason: 'IdentityShared' } });
});

test('what has no memory to save, or one that would not fit another VM, is refused with the field', async () => {
  const stopped = await startRunner(await aPod({ powerState: 'Stopped' }));
  await stopped.reaches({ powerState: 'Stopped' });
  await expect(stopped.client.startExport('image', undefined, true)).rejects.toThrow('the VM does not run');
  const pod = await aPod({ disks: [{ name: 'logs', bytes: 1024 * 1024 }] });
  await mkdir(`${pod.root}${runnerPaths.disks}/logs`, { recursive: true });
  const withDisk = await startRunner(pod);
  await withDisk.reaches({ powerState: 'Running' });
  await expect(withDisk.client.startExport('image', undefined, true)).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringMatching(/^disks: /),
  });
});

test('what was started with a CD has no memory to save until it is started again, whether the CD is still in it or not', async () => {
  const pod = await aPod({ iso: true });
  const folder = await aFolder();
  const iso = `${folder}.iso`;
  onTestFinished(() => rm(iso, { force: true }));
  await run('genisoimage', ['-quiet', '-o', iso, folder]);
  await placeIso(pod, iso);
  const runner = await startRunner(pod);
  await runner.reaches(up);
  const save = (id: string) => runner.client.startExport(id, undefined, true);
  await expect(save('image')).rejects.toMatchObject({
    reason: 'Invalid',
    message: expect.stringContaining('eject it'),
  });
  await runner.client.eject();
  await expect(save('image')).rejects.toMatchObject({ reason: 'Invalid', message: ejectedRefusal });
  await runner.client.power({ action: 'restart' });
  await runner.reaches(up);
  await saved(runner, 'image');
});

test('a memory for which there is no room is no image, and the guest goes on', async () => {
  const runner = await startRunner(await aPod());
  await runner.reaches(up);
  const exports = `${runner.pod.root}${runnerPaths.state}/exports`;
  const volume = await smallVolume(32 * 2 ** 20);
  onTestFinished(() => volume.remove());
  await mkdir(exports);
  await run('mount', ['--bind', volume.path, exports]);
  onTestFinished(async () => void (await run('umount', ['-l', exports])));
  await runner.client.startExport('image', undefined, true);
  await expect
    .poll(() => runner.client.getExport('image'), { timeout: 60_000 })
    .toMatchObject({ state: 'Failed', message: "the VM's storage has no room for the copy" });
  expect(await readdir(exports)).toEqual([]);
  expect(await runner.guest('echo goes on')).toBe('goes on\n');
  await volume.resize(2 ** 30);
  await saved(runner, 'image');
});
