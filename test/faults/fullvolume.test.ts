import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runnerEnvironment, runnerPaths } from '../../src/api/runner.ts';
import { allowBootTime, aPod, endProcesses, inNewPod, startRunner } from '../integration/runner/harness.ts';
import { vmWorld } from '../integration/vm/harness.ts';
import { startVmOperator } from '../support/operator.ts';
import { qemuFolder } from '../support/qemu.ts';
import { smallVolume } from '../support/smallvolume.ts';

/** The volume of a VM's disk had no limit: a guest filled its node; a runner that found it full spoke of `ENOSPC`. */

allowBootTime();

const run = promisify(execFile);
const Mi = 2 ** 20;
const soon = { timeout: 60_000 };

async function aDisk(size: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-disk-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const disk = join(folder, 'disk.qcow2');
  await run('qemu-img', ['create', '-q', '-f', 'qcow2', disk, size]);
  return disk;
}

/** A QEMU for the front of PATH that writes down what its monitor is asked for, and how often the guest has been let go on. */
async function tellingQemu(root: string): Promise<{ path: string; continued(): Promise<number> }> {
  const folder = join(root, 'telling');
  const log = join(folder, 'log');
  const name = 'qemu-system-x86_64';
  await mkdir(folder);
  const script = `#!/bin/sh\nexec '${join(qemuFolder, name)}' "$@" -trace handle_qmp_command -D '${log}'\n`;
  await writeFile(join(folder, name), script, { mode: 0o755 });
  return {
    path: [folder, process.env['PATH']].join(delimiter),
    continued: async () => (await readFile(log, 'utf8')).match(/"execute": ?"cont"/g)?.length ?? 0,
  };
}

/** A QEMU for the front of PATH that a limit of the size of its files does not kill: its writes fail, and not for want of room. */
async function limitableQemu(root: string): Promise<string> {
  const folder = join(root, 'limitable');
  const name = 'qemu-system-x86_64';
  await mkdir(folder);
  const script = `#!/bin/sh\ntrap '' XFSZ\nexec '${join(qemuFolder, name)}' "$@"\n`;
  await writeFile(join(folder, name), script, { mode: 0o755 });
  return [folder, process.env['PATH']].join(delimiter);
}

describe('an Ephemeral disk', () => {
  test('that is larger than the installation allows is refused in a sentence, by the operator and by the runner', async () => {
    const world = await vmWorld();
    onTestFinished(() => world.stop());
    await world.kubelet.addNode({ name: 'n1' });
    const operator = await startVmOperator(world.client, { ephemeralLimitBytes: 64 * Mi });
    onTestFinished(() => operator.stop());
    const space = await world.namespace('large');
    await space.deploy('vm', { disk: { size: '65Mi' } });
    await space.until('vm', 'Stalled', {
      reason: 'InvalidSpec',
      message:
        'disk.size: 65Mi is more than an Ephemeral disk may have here (64Mi, chart value disk.ephemeralLimit); deploy it again with storage Persistent, or with a smaller size',
    });
    await space.deploy('fits', { disk: { size: '64Mi' } });
    await space.untilReady('fits');

    const runner = await startRunner(await aPod({ diskLimitBytes: 64 * Mi }, await aDisk('65M')));
    const { message } = await runner.reaches({
      powerState: 'Failed',
      reason: 'DiskTooLarge',
      retrying: false,
    });
    expect(message).toBe(
      `the disk has ${65 * Mi} bytes, an Ephemeral disk may have ${64 * Mi} here (chart value disk.ephemeralLimit); deploy it again with storage Persistent`,
    );
  });

  test('may have as much as the installation allows, also where that is no whole number of MiB', async () => {
    const limit = 64 * Mi - 512;
    const pod = await aPod(
      { diskLimitBytes: limit, diskBytes: limit, powerState: 'Stopped' },
      await aDisk('32M'),
    );
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Stopped', diskSize: 64 * Mi });
    expect((await runner.client.resize(limit)).diskSize).toBe(64 * Mi);
  });

  test('does not grow beyond that either', async () => {
    const pod = await aPod({ diskLimitBytes: 64 * Mi, powerState: 'Stopped' }, await aDisk('32M'));
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Stopped', diskSize: 32 * Mi });
    await expect(runner.client.resize(65 * Mi)).rejects.toMatchObject({
      reason: 'Invalid',
      message: expect.stringContaining('(chart value disk.ephemeralLimit)'),
    });
    expect((await runner.client.resize(64 * Mi)).diskSize).toBe(64 * Mi);
  });
});

describe('a runner whose volume is full', () => {
  async function onSmallVolume(pod: { root: string }, bytes: number) {
    const volume = await smallVolume(bytes);
    onTestFinished(() => volume.remove());
    const mountPoint = pod.root + runnerPaths.state;
    await run('mkdir', ['-p', mountPoint]);
    await run('mount', ['--bind', volume.path, mountPoint]);
    onTestFinished(async () => void (await run('umount', ['-l', mountPoint])));
    return {
      fill: () => run('sh', ['-c', `cat /dev/zero >> ${mountPoint}/filler || true`]),
      free: () => rm(join(mountPoint, 'filler')),
      /** Also what the runner keeps for its own state. */
      async fillWhole() {
        await rm(join(mountPoint, 'state.json.spare'), { force: true });
        await this.fill();
      },
      leave: async (left: number) => {
        const { bavail, bsize } = await statfs(mountPoint);
        const script = `head -c ${bavail * bsize - left} /dev/zero >> ${mountPoint}/filler`;
        await run('sh', ['-c', script]);
      },
    };
  }

  test('ends with that sentence where it cannot begin', async () => {
    const pod = await aPod({ powerState: 'Stopped' }, await aDisk('32M'));
    const volume = await onSmallVolume(pod, Mi);
    await volume.fill();
    await expect(startRunner(pod)).rejects.toThrow(/ended with 1/);
    expect(await readFile(join(pod.root, 'termination-log'), 'utf8')).toMatch(
      /^the VM's volume is full, the runner's certificate cannot be written: ENOSPC/,
    );
    await volume.free();
    await (await startRunner(pod)).reaches({ powerState: 'Stopped' });
  });

  test('answers a verb with that sentence, and obeys when there is room', async () => {
    const pod = await aPod({ powerState: 'Stopped' }, await aDisk('32M'));
    const volume = await onSmallVolume(pod, Mi);
    const runner = await startRunner(pod);
    // Before that it says Stopped, too, and has made no disk yet.
    await runner.reaches({ powerState: 'Stopped', diskSize: 32 * Mi });
    // A verb has its turn when the start has written all it writes: what it overwrites later would be room again.
    await runner.client.resize(32 * Mi);
    await volume.fillWhole();
    await expect(runner.client.resize(64 * Mi)).rejects.toMatchObject({
      message: expect.stringMatching(/^the VM's volume is full, /),
    });
    await volume.free();
    expect((await runner.client.resize(64 * Mi)).diskSize).toBe(64 * Mi);
  });

  test('pauses its guest, says so once, and lets it go on when there is room', async () => {
    const pod = await aPod();
    const volume = await onSmallVolume(pod, 64 * Mi);
    const qemu = await tellingQemu(pod.root);
    const runner = await startRunner(pod, { PATH: qemu.path });
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    await volume.fill();
    const writing = runner.guest('dd if=/dev/urandom of=/filled bs=1M count=8 && sync && wc -c < /filled');
    await runner.reaches({ powerState: 'Failed', reason: 'DiskFull', retrying: true });
    // Some tries, each of which stops the guest again.
    const before = await qemu.continued();
    await expect.poll(qemu.continued, { timeout: 150_000 }).toBeGreaterThanOrEqual(before + 3);
    await volume.free();
    await runner.reaches({ powerState: 'Running', retrying: false });
    expect((await writing).trim()).toBe(String(8 * Mi));
    expect(runner.log().match(/storage is full/g)).toHaveLength(1);
  });

  test('pauses its guest just so where it is a quota that is used up, or whatever else keeps QEMU from writing', async () => {
    const pod = await aPod();
    const runner = await startRunner(pod, { PATH: await limitableQemu(pod.root) });
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    await runner.guest('sync');
    const { size } = await stat(`${pod.root}${runnerPaths.state}/disk.qcow2`);
    const limit = async (bytes: number | 'unlimited') =>
      run('prlimit', ['--pid', String(await runner.qemuPid()), `--fsize=${bytes}:unlimited`]);
    await limit(size);
    const writing = runner.guest('dd if=/dev/urandom of=/filled bs=1M count=8 && sync && wc -c < /filled');
    const { message } = await runner.reaches({ powerState: 'Failed', reason: 'DiskFull', retrying: true });
    expect(message).toMatch(/^the VM's storage is full or not writable \(File too large\); /);
    await limit('unlimited');
    await runner.reaches({ powerState: 'Running', retrying: false });
    expect((await writing).trim()).toBe(String(8 * Mi));
  });

  test('carries out verbs all the same, as often as they come, and knows of them afterwards', async () => {
    const pod = await aPod({ graceSeconds: 4 });
    const volume = await onSmallVolume(pod, 64 * Mi);
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    await runner.guest('sync');
    await volume.fill();
    for (const restartRequest of ['r1', 'r2'])
      expect(await runner.client.power({ action: 'restart', restartRequest })).toMatchObject({
        restartRequest,
      });
    expect(await runner.client.power({ action: 'stop' })).toMatchObject({ powerState: 'Stopped' });
    await endProcesses(runner.process);
    const again = await startRunner(pod);
    await again.reaches({ powerState: 'Stopped', reason: 'Requested', restartRequest: 'r2' });
    const revert = { action: 'revert', revertRequest: 'v1', stopped: true } as const;
    expect(await again.client.power(revert)).toMatchObject({ powerState: 'Stopped', revertRequest: 'v1' });
  });

  test('begins in another pod all the same', async () => {
    const pod = await aPod({ powerState: 'Stopped' }, await aDisk('32M'));
    const volume = await onSmallVolume(pod, Mi);
    const first = await startRunner(pod);
    await first.reaches({ powerState: 'Stopped', diskSize: 32 * Mi });
    await endProcesses(first.process);
    await volume.fill();
    const second = await startRunner(inNewPod(pod));
    await second.reaches({ powerState: 'Stopped', reason: 'Requested' });
    expect(second.client.fingerprint()).not.toBe(first.client.fingerprint());
  });

  test('knows that its guest has powered itself off, though it can write nothing down', async () => {
    const pod = await aPod();
    const volume = await onSmallVolume(pod, 64 * Mi);
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Running', guestReachable: true });
    await runner.guest('sync');
    await volume.fillWhole();
    await runner.guest('poweroff -n -f').catch(() => undefined);
    await runner.reaches({ powerState: 'Stopped', reason: 'GuestShutdown' });
    expect(runner.process.exitCode).toBeNull();
  });

  test('on the storage of a node is copied only as far as the kubelet evicts nobody for it, though no guest runs', async () => {
    const spec = { powerState: 'Stopped', diskLimitBytes: 256 * Mi } as const;
    const pod = await aPod(spec, await aDisk('32M'));
    const volume = await onSmallVolume(pod, 256 * Mi);
    // What a node can allocate by the kubelet's defaults.
    const { client, reaches } = await startRunner(pod, {
      [runnerEnvironment.ephemeralStorage]: `${0.9 * 256 * Mi}`,
    });
    await reaches({ powerState: 'Stopped', diskSize: 32 * Mi });
    await volume.leave(32 * Mi);
    await client.startExport('a');
    await expect
      .poll(() => client.getExport('a'), soon)
      .toMatchObject({
        state: 'Failed',
        message: expect.stringMatching(/^the VM's storage has no room for the copy: the kubelet /),
      });
    await volume.free();
    await client.startExport('a');
    await expect.poll(() => client.getExport('a'), soon).toMatchObject({ state: 'Ready' });
  });

  test('leaves to its guest what copies would take, while they are made and while they wait', async () => {
    const pod = await aPod();
    const volume = await onSmallVolume(pod, 256 * Mi);
    const { client, reaches } = await startRunner(pod);
    await reaches({ powerState: 'Running', guestReachable: true });
    const failed = { state: 'Failed', message: "the VM's storage has no room for the copy" };
    await client.startExport('kept');
    await expect.poll(() => client.getExport('kept'), soon).toMatchObject({ state: 'Ready' });
    // Less than a twentieth of the volume.
    await volume.leave(8 * Mi);
    await expect.poll(() => client.getExport('kept'), soon).toMatchObject(failed);
    await expect(client.exportTicket('kept')).rejects.toMatchObject({ reason: 'Conflict' });
    await volume.leave(8 * Mi);
    await client.startExport('made');
    await expect.poll(() => client.getExport('made'), soon).toMatchObject(failed);
    expect(await readdir(`${pod.root}${runnerPaths.state}/exports`)).toEqual([]);
    await volume.free();
    await client.startExport('made');
    await expect.poll(() => client.getExport('made'), soon).toMatchObject({ state: 'Ready' });
  });
});
