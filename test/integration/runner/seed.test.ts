import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { runnerPaths, userDataKey } from '../../../src/api/runner.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

test('a guest finds its name, keys and metadata on the seed, and the serial number it was given', async () => {
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8mBqYmS1lWnQ5vXz1dF0 "odd, but mine"';
  const runner = await startRunner(
    await aPod({
      vm: { namespace: 'test', name: 'named-guest', uid: 'a2f5c1de-0000-4000-8000-123456789abc' },
      sshAuthorizedKeys: [key],
      metadata: [
        { name: 'role', value: 'builder: "quoted"\nnext' },
        { name: 'odd name', value: "it's" },
      ],
      systemSerial: 'C02,ABC',
    }),
  );
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  expect(await runner.guest('hostname')).toBe('named-guest\n');
  expect(await runner.guest('cat /root/.ssh/authorized_keys')).toContain(
    'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8mBqYmS1lWnQ5vXz1dF0',
  );
  expect(await runner.guest('cat /sys/class/dmi/id/product_serial /sys/class/dmi/id/product_uuid')).toBe(
    'C02,ABC\na2f5c1de-0000-4000-8000-123456789abc\n',
  );
  const seed = await runner.guest(
    'mkdir -p /tmp/s; mount -t iso9660 -o ro /dev/vdb /tmp/s; cat /tmp/s/meta-data; head -1 /tmp/s/user-data',
  );
  expect(seed).toContain('instance-id: "a2f5c1de-0000-4000-8000-123456789abc"\n');
  expect(seed).toContain('role: "builder: \\"quoted\\"\\nnext"\n');
  expect(seed).toContain('"odd name": "it\'s"\n');
  expect(seed).toContain('#cloud-config\n');
});

test('user data comes from the file of a Secret, which is waited for', async () => {
  const key = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ8mBqYmS1lWnQ5vXz1dF0 mine';
  const pod = await aPod({ userData: 'first-boot', sshAuthorizedKeys: [key] });
  const runner = await startRunner(pod);
  await runner.reaches({
    powerState: 'Failed',
    retrying: true,
    reason: 'UserDataMissing',
    message: expect.stringContaining(
      'Secret first-boot of spec.userData does not exist in the namespace of the VM, or has no key userData',
    ) as string,
  });
  const file = join(pod.root + runnerPaths.userData, userDataKey);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, '#!/bin/sh\necho from a Secret\n');
  await runner.reaches({ powerState: 'Running', guestReachable: true });
  expect(
    await runner.guest(
      'mkdir -p /tmp/s; mount -t iso9660 -o ro /dev/vdb /tmp/s; cat /tmp/s/user-data /root/.ssh/authorized_keys',
    ),
  ).toBe(`#!/bin/sh\necho from a Secret\n${key}\n`);
});
