import { randomUUID } from 'node:crypto';
import { cp, mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { givingHook } from '../../support/hook.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, claimFor, clientFor, startRunner } from './harness.ts';
import { anImageOf, aPodOf, saved } from './savedimage.ts';

/** What becomes of VMs of an image with memory: the table in docs/images.md. Restart, revert and a reboot of the node: memory.test.ts. */
allowBootTime();

const mebibyte = 2 ** 20;
const up = { powerState: 'Running', guestReachable: true } as const;
const warm = { fromMemory: true, reason: 'StartedFromMemory' };

/** It fails in one VM. */
const hook = `cat > /tmp/told; ! grep -q '"name":"broken"' /tmp/told`;

async function anImage(): Promise<string> {
  const original = await startRunner(await aPod());
  await original.reaches(up);
  await original.guest(givingHook(hook));
  await saved(original, 'image');
  const image = await anImageOf(original, 'image');
  const qemu = await original.qemuPid();
  kill(original.process.pid ?? 0);
  kill(qemu);
  await original.exitCode();
  return image;
}

test('after a QEMU that was killed the guest boots from the disk as it left it; a disk that has grown has no memory any more', async () => {
  const copy = await startRunner(await aPodOf(await anImage()));
  expect(await copy.reaches(up)).toMatchObject({ warmStart: warm });
  await copy.guest('echo kept > /root/file; sync');
  kill(await copy.qemuPid());
  expect(await copy.reaches({ ...up, restarts: 1 })).toMatchObject({
    warmStart: { fromMemory: false, reason: 'MemoryUsed' },
  });
  expect(await copy.guest('cat /root/file')).toBe('kept\n');

  await copy.client.resize(100 * mebibyte);
  await copy.client.power({ action: 'revert', revertRequest: 'r1' });
  expect(await copy.reaches({ ...up, revertRequest: 'r1' })).toMatchObject({
    warmStart: {
      fromMemory: false,
      reason: 'MachineDiffers',
      message: expect.stringContaining(`the VM has ${100 * mebibyte}`),
    },
  });
  expect(await copy.guest('test -e /root/file || echo fresh')).toBe('fresh\n');
});

test('with an install medium the guest boots; once it is ejected a revert starts from the memory', async () => {
  const pod = await aPodOf(await anImage(), { iso: true });
  await mkdir(`${pod.root}${runnerPaths.iso}/disk`, { recursive: true });
  await writeFile(`${pod.root}${runnerPaths.iso}/disk/medium.iso`, Buffer.alloc(64 * 1024));
  const copy = await startRunner(pod);
  expect(await copy.reaches({ ...up, iso: true })).toMatchObject({
    warmStart: { fromMemory: false, reason: 'MachineDiffers', message: expect.stringContaining('device') },
  });
  await copy.client.eject();
  await copy.client.power({ action: 'revert', revertRequest: 'r1' });
  expect(await copy.reaches({ ...up, revertRequest: 'r1', iso: false })).toMatchObject({ warmStart: warm });
});

async function aWaitingGuest(image: string) {
  const pod = await aPodOf(image, { standby: 'Suspended' });
  const runner = await startRunner(pod);
  const pool = clientFor(runner.port, pod.podUid);
  await expect
    .poll(() => pool.state(), { timeout: 150_000, interval: 100 })
    .toMatchObject({ powerState: 'Suspended', standby: 'Idle', warmStart: warm });
  const claim = async (name: string) => {
    const vm = { namespace: 'team', name, uid: randomUUID() };
    // Its answer does not wait for the hook.
    expect(await pool.claim(claimFor(pod, vm))).toMatchObject({ introducing: true, warmStart: warm });
    return clientFor(runner.port, vm.uid);
  };
  return { runner, claim };
}

test('a guest of a pool that a VM has claimed is told whose it is again after a revert', async () => {
  const { runner, claim } = await aWaitingGuest(await anImage());
  const isTold = async () => {
    await expect.poll(() => runner.guest('hostname'), { interval: 200 }).toBe('job\n');
  };
  const claimed = await claim('job');
  await isTold();
  await expect.poll(() => claimed.state()).not.toHaveProperty('introducing');
  expect(await claimed.state()).toMatchObject({ warmStart: warm });
  expect(await claimed.power({ action: 'revert', revertRequest: 'r1' })).toMatchObject({
    revertRequest: 'r1',
    warmStart: warm,
  });
  await isTold();
});

test('a hook that has failed after a claim is told of when it is over', async () => {
  const { claim } = await aWaitingGuest(await anImage());
  const claimed = await claim('broken');
  await expect
    .poll(() => claimed.state(), { timeout: 60_000 })
    .toMatchObject({
      powerState: 'Running',
      warmStart: {
        fromMemory: true,
        reason: 'IdentityShared',
        message: expect.stringContaining('exit code 1'),
      },
    });
  expect(await claimed.state()).not.toHaveProperty('introducing');
});

test('a memory that was cut off or altered on the node costs nothing but a boot', async () => {
  const image = await anImage();
  const harm: readonly [string, (memory: string) => Promise<void>][] = [
    ['MemoryNotLoaded', (memory) => truncate(join(memory, 'ram'), 64 * mebibyte)],
    [
      'MemoryNotLoaded',
      async (memory) => {
        const state = await readFile(join(memory, 'state'));
        await writeFile(join(memory, 'state'), state.fill(0xff, Math.floor(state.length / 2)));
      },
    ],
    ['MemoryMissing', (memory) => writeFile(join(memory, 'machine.json'), '{"version":2}')],
  ];
  for (const [reason, alter] of harm) {
    const { root } = await aPod({}, '');
    const altered = join(root, 'altered');
    await cp(image, altered, { recursive: true });
    await alter(join(altered, 'memory'));
    const copy = await startRunner(await aPodOf(altered));
    expect(await copy.reaches(up)).toMatchObject({ warmStart: { fromMemory: false, reason } });
    kill(await copy.qemuPid());
    kill(copy.process.pid ?? 0);
  }
  expect((await stat(join(image, 'memory/ram'))).size).toBe(192 * mebibyte);
});
