import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, claimFor, clientFor, startRunner } from './harness.ts';

allowBootTime();

test('a guest that waits is paused, goes on for the first VM that claims it, and is that VM’s after a restart of its runner', async () => {
  const pod = await aPod({ standby: 'Suspended' });
  const runner = await startRunner(pod);
  const before = clientFor(runner.port, pod.podUid);
  await expect
    .poll(() => before.state(), { timeout: 150_000, interval: 100 })
    .toMatchObject({ powerState: 'Suspended', standby: 'Idle', vmUid: pod.podUid });
  await expect(runner.client.state()).rejects.toThrow('meant for another VM');
  const vm = { namespace: 'team', name: 'job', uid: randomUUID() };
  const request = claimFor(pod, vm);
  const claimed = { powerState: 'Running', vmUid: vm.uid, settingsVersion: 'v1' };
  expect(await before.claim(request)).toMatchObject(claimed);
  expect(await before.claim(request)).toMatchObject(claimed);
  await expect(before.claim({ ...request, vm: { ...vm, uid: 'another' } })).rejects.toMatchObject({
    reason: 'Conflict',
  });
  const after = clientFor(runner.port, vm.uid);
  expect(await after.state()).not.toHaveProperty('standby');
  await expect.poll(() => runner.guest('hostname'), { interval: 200 }).toBe('job\n');
  await expect(before.state()).rejects.toThrow('meant for another VM');
  // With the container all of its processes end.
  const qemu = await runner.qemuPid();
  kill(runner.process.pid ?? 0);
  kill(qemu);
  await runner.exitCode();
  const again = await startRunner(pod);
  const other = { ...request, vm: { ...vm, uid: 'another' } };
  await expect
    .poll(() => clientFor(again.port, vm.uid).state(), { timeout: 150_000, interval: 100 })
    .toMatchObject({ powerState: 'Running', vmUid: vm.uid });
  await expect(clientFor(again.port, pod.podUid).claim(other)).rejects.toMatchObject({ reason: 'Conflict' });
});

test('a claimed guest that boots again by itself is its VM to cloud-init, in the QEMU that it waited in', async () => {
  const pod = await aPod({ standby: 'Suspended', metadata: [{ name: 'stage', value: 'waiting' }] });
  const runner = await startRunner(pod);
  const waiting = clientFor(runner.port, pod.podUid);
  await expect
    .poll(() => waiting.state(), { timeout: 150_000, interval: 100 })
    .toMatchObject({ standby: 'Idle' });
  const vm = { namespace: 'team', name: 'job', uid: randomUUID() };
  const { settings, ...request } = claimFor(pod, vm);
  // Longer than all that the guest was booted with.
  const metadata = [{ name: 'job', value: 'x'.repeat(100_000) }];
  await waiting.claim({ ...request, settings: { ...settings, values: { ...settings.values, metadata } } });
  const qemu = await runner.qemuPid();
  const after = clientFor(runner.port, vm.uid);
  const isReachable = async () => (await after.state()).guestReachable;
  await runner.guest('(sleep 1; reboot -f) > /dev/null 2>&1 &');
  for (const expected of [false, true])
    await expect.poll(isReachable, { timeout: 150_000, interval: 100 }).toBe(expected);
  expect(await runner.guest('hostname')).toBe('job\n');
  const seed = await runner.guest(
    'mkdir -p /tmp/s; mount -t iso9660 -o ro /dev/vdb /tmp/s; cut -c -60 /tmp/s/meta-data; wc -c < /tmp/s/meta-data',
  );
  expect(seed).toContain(`instance-id: "${vm.uid}"\n`);
  expect(seed).not.toContain('waiting');
  expect(Number(seed.trimEnd().split('\n').at(-1))).toBeGreaterThan(200_000);
  expect(await runner.qemuPid()).toBe(qemu);
});
