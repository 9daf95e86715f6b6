import { execFileSync } from 'node:child_process';
import { mkdtemp, open, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { allowBootTime, aPod, inNewPod, placeDisk, type Pod, startRunner } from './harness.ts';

allowBootTime();

const mebibyte = 1024 * 1024;

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-disk-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

function qemuImg(...args: string[]): string {
  return execFileSync('qemu-img', args, { encoding: 'utf8' });
}

describe('an image that cannot be used is named', () => {
  test('one without a disk file', async () => {
    const runner = await startRunner(await aPod({}, ''));
    const state = await runner.reaches({ powerState: 'Failed', reason: 'DiskMissing', retrying: false });
    expect(state.message).toContain('the image has no /disk/<file>.{qcow2,raw,img}');
  });

  test.each<[string, (folder: string) => Promise<string> | string, string]>([
    [
      'one with a backing file',
      (folder) => {
        qemuImg('create', '-q', '-f', 'qcow2', join(folder, 'base.qcow2'), '1M');
        qemuImg(
          'create',
          '-q',
          '-f',
          'qcow2',
          '-F',
          'qcow2',
          '-b',
          join(folder, 'base.qcow2'),
          join(folder, 'top.qcow2'),
        );
        return join(folder, 'top.qcow2');
      },
      "the image's disk needs a backing file",
    ],
    [
      'one whose data lies in another file',
      (folder) => {
        qemuImg(
          'create',
          '-q',
          '-f',
          'qcow2',
          '-o',
          `data_file=${folder}/data.raw`,
          join(folder, 'top.qcow2'),
          '1M',
        );
        return join(folder, 'top.qcow2');
      },
      "the image's disk keeps its data in an external file",
    ],
    [
      'one that is no qcow2 but is called so',
      async (folder) => {
        await writeFile(join(folder, 'text.qcow2'), 'hello');
        return join(folder, 'text.qcow2');
      },
      "the image's disk is named .qcow2 and is none",
    ],
    [
      'one that is qcow2 but is called raw',
      (folder) => {
        qemuImg('create', '-q', '-f', 'qcow2', join(folder, 'disk.raw'), '1M');
        return join(folder, 'disk.raw');
      },
      "the image's disk is named .raw and is a qcow2 file",
    ],
    [
      'an empty one',
      async (folder) => {
        await writeFile(join(folder, 'disk.img'), '');
        return join(folder, 'disk.img');
      },
      "the image's disk is empty",
    ],
  ])('%s', async (_sentence, make, message) => {
    const runner = await startRunner(await aPod({}, await make(await aFolder())));
    const state = await runner.reaches({ powerState: 'Failed', reason: 'ImageInvalid', retrying: false });
    expect(state.message).toContain(message);
  });

  test('one with two disks', async () => {
    const pod = await aPod();
    await writeFile(`${pod.root}${runnerPaths.image}/disk/second.img`, 'x');
    const runner = await startRunner(pod);
    const state = await runner.reaches({ powerState: 'Failed', reason: 'ImageInvalid' });
    expect(state.message).toBe('the image has more than one disk: disk.qcow2, second.img');
  });

  test('a missing ISO, a missing GPU, and settings that are none', async () => {
    const withoutIso = await startRunner(await aPod({ iso: true }));
    await withoutIso.reaches({ powerState: 'Failed', reason: 'IsoMissing', retrying: false });
    const withoutGpu = await startRunner(await aPod({ gpuPassthrough: true }));
    await withoutGpu.reaches({ powerState: 'Failed', reason: 'GpuMissing', vncConsole: false });
    await expect(startRunner(await aPod({ cpu: 0 }))).rejects.toThrow(
      /ended with 2.*runner-spec cannot be used/s,
    );
  });
});

describe('the size of the disk', () => {
  test('only grows, running and stopped, and stays grown after a revert', async () => {
    const runner = await startRunner(await aPod({ diskBytes: 80 * mebibyte }));
    await runner.reaches({ powerState: 'Running', guestReachable: true, diskSize: 80 * mebibyte });
    expect(await runner.guest('cat /sys/block/vda/size')).toBe(`${(80 * mebibyte) / 512}\n`);
    await expect(runner.client.resize(70 * mebibyte)).rejects.toMatchObject({
      reason: 'Invalid',
      message: `a disk can only grow: it has ${80 * mebibyte} bytes, ${70 * mebibyte} were asked for`,
    });
    const reply = await runner.client.resize(100 * mebibyte - 1);
    expect(reply).toMatchObject({ diskSize: 100 * mebibyte, fileSystemGrown: false });
    expect(reply.message).toContain('growpart');
    expect(await runner.guest('cat /sys/block/vda/size')).toBe(`${(100 * mebibyte) / 512}\n`);
    await runner.client.power({ action: 'stop' });
    await expect(runner.client.resize(90 * mebibyte)).rejects.toMatchObject({ reason: 'Invalid' });
    expect(await runner.client.resize(120 * mebibyte)).toMatchObject({ diskSize: 120 * mebibyte });
    await runner.client.power({ action: 'revert', stopped: true });
    await runner.reaches({ powerState: 'Stopped', diskSize: 120 * mebibyte });
  });

  test('is in whole MiB where more is asked for than the image has, after a revert as well', async () => {
    const pod = await aPod({ diskBytes: 80 * mebibyte + 1, powerState: 'Stopped' });
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Stopped', reason: 'Requested', diskSize: 81 * mebibyte });
    const reverted = await runner.client.power({ action: 'revert', revertRequest: 'r1', stopped: true });
    expect(reverted).toMatchObject({ revertRequest: 'r1', diskSize: 81 * mebibyte });
  });

  test('is the image’s where nothing smaller is possible', async () => {
    const folder = await aFolder();
    qemuImg('create', '-q', '-f', 'raw', join(folder, 'disk.raw'), '64M');
    const runner = await startRunner(await aPod({ diskBytes: mebibyte }, join(folder, 'disk.raw')));
    await runner.reaches({ powerState: 'Running', diskSize: 64 * mebibyte });
  });
});

describe('a disk that was made on another image', () => {
  test('is refused until the VM is reverted', async () => {
    const pod = await aPod({ imageDigest: 'sha256:one', powerState: 'Stopped' });
    await startAndEnd(pod);
    const second = await startRunner({ ...pod, spec: { ...pod.spec, imageDigest: 'sha256:two' } });
    const state = await second.reaches({ powerState: 'Failed', reason: 'ImageInvalid' });
    expect(state.message).toContain(
      'was made on image sha256:one, the pod has sha256:two; the disk stays as it is: a VM that is deployed with its claim and digest sha256:one goes on with it, a revert discards it',
    );
    await second.client.power({ action: 'revert', stopped: true });
    await second.reaches({ powerState: 'Stopped' });
  });

  test('under the same tag is refused as well, and not after a revert', async () => {
    const pod = await aPod({ powerState: 'Stopped' }, await aRawDisk('one'));
    await startAndEnd(pod);
    // The same image again.
    await startAndEnd(inNewPod(pod));
    await placeDisk(pod.root, await aRawDisk('two'));
    const moved = inNewPod(pod);
    const refused = await startRunner(moved);
    const state = await refused.reaches({ powerState: 'Failed', reason: 'ImageInvalid', retrying: false });
    expect(state.message).toContain(
      "the image under the VM's tag is another one than the VM's disk was made on; the disk stays as it is: a VM that is deployed with its claim and the digest of that image goes on with it",
    );
    const { id } = await refused.client.startExport('rescue');
    await expect.poll(() => refused.client.getExport(id)).toMatchObject({ state: 'Failed' });
    await refused.client.power({ action: 'revert', stopped: true });
    await refused.reaches({ powerState: 'Stopped' });
    await refused.client.startExport('rescue');
    await expect.poll(() => refused.client.getExport(id)).toMatchObject({ state: 'Ready' });
    refused.process.kill('SIGTERM');
    await refused.exitCode();
    await startAndEnd(inNewPod(pod));
  });

  test.each([
    [
      'which was pinned, is named where the pod has no digest',
      'sha256:one',
      undefined,
      'made on (sha256:one)',
    ],
    [
      'which had no digest, is refused where the pod has one',
      undefined,
      'sha256:two',
      'image sha256:two of the pod is another one than',
    ],
  ])('%s', async (_sentence, made, imageDigest, message) => {
    const pod = await aPod(
      { powerState: 'Stopped', ...(made === undefined ? {} : { imageDigest: made }) },
      await aRawDisk('one'),
    );
    await startAndEnd(pod);
    await placeDisk(pod.root, await aRawDisk('two'));
    const { imageDigest: _made, ...spec } = pod.spec;
    const second = await startRunner({
      ...inNewPod(pod),
      spec: { ...spec, ...(imageDigest === undefined ? {} : { imageDigest }) },
    });
    const state = await second.reaches({ powerState: 'Failed', reason: 'ImageInvalid' });
    expect(state.message).toContain(message);
  });

  test.each([
    ['an earlier build made', (state: string) => state.replace(/"imageStamp":"[^"]*",?/, '')],
    ['has a state file that cannot be read', () => 'none'],
  ])('is known from the next start on where a disk %s', async (_sentence, damage) => {
    const pod = await aPod({ powerState: 'Stopped', imageDigest: 'sha256:one' }, await aRawDisk('one'));
    await startAndEnd(pod);
    const path = `${pod.root}${runnerPaths.state}/state.json`;
    await writeFile(path, damage(await readFile(path, 'utf8')));
    await startAndEnd(inNewPod(pod));
    const saved = JSON.parse(await readFile(path, 'utf8'));
    expect(saved).toMatchObject({ imageDigest: 'sha256:one', imageStamp: expect.any(String) });
  });
});

/** A raw disk of 64 MiB with this text far behind its beginning, the same name and size whatever it is. */
async function aRawDisk(text: string): Promise<string> {
  const path = join(await aFolder(), 'disk.raw');
  await writeFile(path, '');
  await truncate(path, 64 * mebibyte);
  const file = await open(path, 'r+');
  for (let at = mebibyte; at < 64 * mebibyte; at += mebibyte) await file.write(text, at);
  await file.close();
  return path;
}

/** A life of the runner in which its guest is off, and the disk gets ready. */
async function startAndEnd(pod: Pod): Promise<void> {
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Stopped', reason: 'Requested' });
  runner.process.kill('SIGTERM');
  await runner.exitCode();
}

test('a CD can be taken out', async () => {
  const folder = await aFolder();
  await writeFile(join(folder, 'tools.iso'), Buffer.alloc(64 * 1024));
  const pod = await aPod({ iso: true });
  await rm(`${pod.root}${runnerPaths.iso}/disk`, { recursive: true });
  execFileSync('mkdir', ['-p', `${pod.root}${runnerPaths.iso}/disk`]);
  execFileSync('cp', [join(folder, 'tools.iso'), `${pod.root}${runnerPaths.iso}/disk/`]);
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Running', iso: true });
  expect(await runner.client.eject()).toMatchObject({ iso: false });
  expect(await runner.client.eject()).toMatchObject({ iso: false });
});

test('a VM without virtio drivers gets a SATA disk and an Intel network card', async () => {
  const pod = await aPod({ legacyIO: true, netBoost: false }, '');
  const folder = await aFolder();
  qemuImg('create', '-q', '-f', 'raw', join(folder, 'disk.raw'), '64M');
  await placeDisk(pod.root, join(folder, 'disk.raw'));
  const runner = await startRunner(pod);
  await runner.reaches({ powerState: 'Running' });
  const devices = [...(await runner.qemuArguments()).matchAll(/-device (\S+)/g)].map(([, device]) => device);
  expect(devices.find((device) => device?.includes('drive=disk'))).toMatch(/^ide-hd,bus=ide\.0,/);
  expect(devices.find((device) => device?.includes('netdev=net0'))).toMatch(/^e1000,/);
  // What the guest has no driver for but can do without (its console, its agent) may stay on virtio.
  expect(devices.filter((device) => /^virtio-(blk|net|scsi)/.test(device ?? ''))).toEqual([]);
});
