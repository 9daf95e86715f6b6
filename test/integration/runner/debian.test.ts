import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { testGuestDisk } from '../../support/guest.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, startRunner, type RunningRunner } from './harness.ts';
import { anImageOf, aPodOf, saved } from './savedimage.ts';

allowBootTime();

const mebibyte = 1024 * 1024;
/** It boots in less than a minute where nothing else is done; beside other tests, emulated, it takes its time. */
const eventually = { timeout: 900_000, interval: 500 };

let disk: string;

beforeAll(async () => {
  disk = await testGuestDisk('debian');
}, 1_200_000);

interface InstanceData {
  ds: { meta_data: { svc3: Record<string, string> } };
  v1: { local_hostname: string };
}

/** What cloud-init itself has understood. */
async function instanceData(runner: RunningRunner): Promise<InstanceData> {
  return JSON.parse(await runner.guest('cat /run/cloud-init/instance-data-sensitive.json')) as InstanceData;
}

/** What no two machines have in common. */
async function identityOf(runner: RunningRunner): Promise<Record<string, string>> {
  const hostKey = await runner.guest('cat /etc/ssh/ssh_host_ed25519_key.pub');
  const [, secret = ''] = hostKey.split(' ');
  // The SSH server has it, too.
  const shown = () => runner.guest('ssh-keyscan -T 60 -t ed25519 127.0.0.1 2>&1 || true');
  await expect.poll(shown, { timeout: 240_000 }).toContain(secret);
  return { machineId: await runner.guest('cat /etc/machine-id'), hostKey: secret };
}

async function end(runner: RunningRunner): Promise<void> {
  kill(await runner.qemuPid());
  kill(runner.process.pid ?? 0);
  await runner.exitCode();
}

test(
  'Debian with cloud-init gets name, keys and metadata, grows its file system, is frozen for a copy, and copies of its memory are machines of their own',
  { timeout: 3_000_000 },
  async () => {
    const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8mBqYmS1lWnQ5vXz1dF0';
    const runner = await startRunner(
      await aPod(
        {
          vm: { namespace: 'test', name: 'seeded', uid: 'b2f5c1de-0000-4000-8000-123456789abc' },
          memoryMiB: 384,
          sshAuthorizedKeys: [`${key} mine`],
          metadata: [{ name: 'role', value: 'builder: "quoted"' }],
        },
        disk,
      ),
    );
    const isDone = () => runner.guest('test -e /run/cloud-init/result.json && echo yes').catch(() => 'no');
    await expect.poll(isDone, eventually).toBe('yes\n');
    expect(await instanceData(runner)).toMatchObject({
      v1: { local_hostname: 'seeded' },
      ds: { meta_data: { svc3: { role: 'builder: "quoted"' } } },
    });
    const result = JSON.parse(await runner.guest('cat /run/cloud-init/result.json')) as object;
    expect(result).toMatchObject({ v1: { datasource: expect.stringContaining('NoCloud'), errors: [] } });
    expect(await runner.guest('hostname')).toBe('seeded\n');
    expect(await runner.guest('cat /root/.ssh/authorized_keys')).toContain(key);

    const { diskSize = 0 } = await runner.client.state();
    const grown = diskSize + 256 * mebibyte;
    // A guest that is too slow is not waited for; to ask again goes on.
    await expect
      .poll(() => runner.client.resize(grown), eventually)
      .toMatchObject({ diskSize: grown, fileSystemGrown: true });
    const size = await runner.guest('stat -f -c "%S %b" /');
    const [blockBytes = 0, blocks = 0] = size.split(' ').map(Number);
    expect(blockBytes * blocks).toBeGreaterThan(600 * mebibyte);

    let copies = 0;
    const copied = async () => {
      const id = `copy-${(copies += 1)}`;
      await runner.client.startExport(id);
      await expect.poll(async () => (await runner.client.getExport(id)).state, eventually).toBe('Ready');
      return (await runner.client.getExport(id)).consistency;
    };
    await expect.poll(copied, eventually).toBe('Frozen');

    await saved(runner, 'image');
    const image = await anImageOf(runner, 'image');
    const found = [await identityOf(runner)];
    await end(runner);
    for (const name of ['one', 'two']) {
      const vm = { namespace: 'test', name, uid: randomUUID() };
      const sshAuthorizedKeys = [`${key} of-${name}`];
      const copy = await startRunner(
        await aPodOf(image, { vm, memoryMiB: 384, sshAuthorizedKeys, metadata: [] }),
      );
      expect(await copy.reaches({ powerState: 'Running', guestReachable: true })).toMatchObject({
        warmStart: { fromMemory: true, reason: 'StartedFromMemory' },
      });
      expect(await copy.guest('cat /etc/hostname; hostname')).toBe(`${name}\n${name}\n`);
      expect(await copy.guest('cat /root/.ssh/authorized_keys')).toBe(`${key} of-${name}\n`);
      found.push(await identityOf(copy));
      await end(copy);
    }
    expect(new Set(found.map(({ machineId }) => machineId)).size).toBe(3);
    expect(new Set(found.map(({ hostKey }) => hostKey)).size).toBe(3);
    for (const { machineId } of found) expect(machineId).toMatch(/^[0-9a-f]{32}\n$/);
  },
);
