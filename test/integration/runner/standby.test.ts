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
