import { beforeAll, expect, test } from 'vitest';
import { testGuestDisk } from '../../support/guest.ts';
import { allowBootTime, aPod, startRunner, type RunningRunner } from './harness.ts';

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

test(
  'Debian with cloud-init gets name, keys and metadata, grows its file system, and is frozen for a copy',
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
  },
);
