import { execFileSync } from 'node:child_process';
import { chmod, mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { allowBootTime, aPod, inNewPod, type Pod, type RunningRunner, startRunner } from './harness.ts';

allowBootTime();

const mebibyte = 2 ** 20;

/** Mounts empty claims for these disks. */
async function withClaims(pod: Pod, ...names: string[]): Promise<Pod> {
  for (const name of names) await mkdir(`${pod.root}${runnerPaths.disks}/${name}`, { recursive: true });
  return pod;
}

const fileOf = ({ root }: Pod, name: string) => `${root}${runnerPaths.disks}/${name}/disk.img`;

/** Path of the device in the guest that has this name as its serial number. */
async function deviceOf(runner: RunningRunner, name: string): Promise<string> {
  const found = await runner.guest(`grep -lx ${name} /sys/block/*/serial`);
  return `/dev/${found.split('/')[3]}`;
}

async function end(runner: RunningRunner): Promise<void> {
  runner.process.kill('SIGTERM');
  await runner.exitCode();
}

/** Files on the VM's volumes that a runner with another user of the same group could not have. */
async function closedToGroup({ root }: Pod): Promise<string[]> {
  const closed: string[] = [];
  for (const folder of [runnerPaths.state, runnerPaths.disks]) {
    const entries = await readdir(root + folder, { recursive: true, withFileTypes: true });
    for (const { parentPath, name } of entries.filter((entry) => entry.isFile())) {
      const path = join(parentPath, name);
      const { mode } = await stat(path);
      if ((mode & 0o060) !== 0o060) closed.push(path);
    }
  }
  return closed;
}

describe('data disks', () => {
  test('are found by their names, keep what is on them in another pod and over a revert, and grow', async () => {
    const disks = [{ name: 'logs', bytes: 8 * mebibyte }];
    const pod = await withClaims(await aPod({ disks }), 'logs', 'old');
    execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', fileOf(pod, 'old'), '16M']);
    const first = await startRunner(pod);
    await first.reaches({ powerState: 'Running', guestReachable: true });
    const device = await deviceOf(first, 'logs');
    expect(await first.guest(`cat /sys/block/${device.slice(5)}/size`)).toBe(`${(8 * mebibyte) / 512}\n`);
    await first.guest(`echo remembered | dd of=${device} conv=fsync 2>/dev/null`);
    await first.client.power({ action: 'revert', revertRequest: 'r1' });
    await first.reaches({ powerState: 'Running', guestReachable: true, revertRequest: 'r1' });
    expect(await first.guest(`dd if=${await deviceOf(first, 'logs')} bs=10 count=1 2>/dev/null`)).toBe(
      'remembered',
    );
    await end(first);
    // The test has made it, for no group.
    expect(await closedToGroup(pod)).toEqual([fileOf(pod, 'old')]);
    const made = [`${pod.root}${runnerPaths.state}/disk.qcow2`, fileOf(pod, 'logs')];
    // As runners of before have left them.
    for (const path of made) await chmod(path, 0o600);

    const more = [
      { name: 'logs', bytes: 24 * mebibyte },
      { name: 'old', format: 'qcow2' as const },
    ];
    const second = await startRunner(inNewPod(pod, { disks: more }));
    await second.reaches({ powerState: 'Running', guestReachable: true });
    const logs = await deviceOf(second, 'logs');
    expect(await second.guest(`dd if=${logs} bs=10 count=1 2>/dev/null`)).toBe('remembered');
    expect(await second.guest(`cat /sys/block/${logs.slice(5)}/size`)).toBe(`${(24 * mebibyte) / 512}\n`);
    const old = await deviceOf(second, 'old');
    expect(await second.guest(`cat /sys/block/${old.slice(5)}/size`)).toBe(`${(16 * mebibyte) / 512}\n`);
    await end(second);
    expect(await closedToGroup(pod)).toEqual([fileOf(pod, 'old')]);
  });

  test('of which one is missing or names another file stop the VM with a sentence, and no guest runs', async () => {
    const missing = await withClaims(await aPod({ disks: [{ name: 'lost' }] }), 'lost');
    const runner = await startRunner(missing);
    const { message } = await runner.reaches({ powerState: 'Failed', reason: 'DiskMissing' });
    expect(message).toBe('the claim of disk lost has no file disk.img');
    await end(runner);
    execFileSync('qemu-img', ['create', '-q', '-f', 'raw', `${fileOf(missing, 'lost')}.base`, '1M']);
    const file = fileOf(missing, 'lost');
    execFileSync('qemu-img', `create -q -f qcow2 -F raw -b ${file}.base ${file}`.split(' '));
    const pod = inNewPod(missing, { disks: [{ name: 'lost', format: 'qcow2' }] });
    const again = await startRunner(pod);
    const refused = await again.reaches({ powerState: 'Failed', reason: 'ImageInvalid' });
    expect(refused.message).toContain('disk.img in the claim of disk lost needs a backing file');
  });
});
