import { expect, test } from 'vitest';
import type { BootSettings } from '../../../src/api/runner.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, inNewPod, startRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;
const values: BootSettings = {
  cpu: 2,
  memoryMiB: 320,
  vncConsole: false,
  netBoost: true,
  legacyIO: false,
  systemSerial: 'SECOND',
  readiness: { timeoutSeconds: 180 },
  metadata: [{ name: 'role', value: 'web' }],
  sshAuthorizedKeys: [],
};
/** What the guest sees of them: its serial number, its processors and its metadata. */
const seen =
  'cat /sys/class/dmi/id/product_serial; nproc; mkdir -p /tmp/s; mount -o ro /dev/vdb /tmp/s; grep "^role" /tmp/s/meta-data; umount /tmp/s';

test('the settings that a start is told hold for it and for what follows in this pod, and in no other', async () => {
  const pod = await aPod({ systemSerial: 'FIRST' });
  const first = await startRunner(pod);
  await first.reaches(up);
  expect((await first.client.state()).settingsVersion).toBeUndefined();
  expect(await first.guest(seen)).toBe('FIRST\n1\n');

  await first.client.power({ action: 'restart', settings: { version: 'two', values } });
  expect(await first.client.state()).toMatchObject({ settingsVersion: 'two', vncConsole: false });
  await first.reaches(up);
  const second = 'SECOND\n2\nrole: "web"\n';
  expect(await first.guest(seen)).toBe(second);

  // A start without others keeps them, and so does a runner that is started again in place.
  await first.client.power({ action: 'restart', restartRequest: 'again' });
  await first.reaches(up);
  expect(await first.guest(seen)).toBe(second);
  const qemu = await first.qemuPid();
  first.process.kill('SIGKILL');
  kill(qemu);
  await first.exitCode();
  const third = await startRunner(pod);
  await third.reaches(up);
  expect((await third.client.state()).settingsVersion).toBe('two');
  expect(await third.guest(seen)).toBe(second);
  third.process.kill('SIGTERM');
  await third.exitCode();

  const fourth = await startRunner(inNewPod(pod));
  await fourth.reaches(up);
  expect((await fourth.client.state()).settingsVersion).toBeUndefined();
  expect(await fourth.guest(seen)).toBe('FIRST\n1\n');
});
