import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, inNewPod, startRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;

describe('a runner that ends', () => {
  test('is started again in place with the disk and the power state it left', async () => {
    const pod = await aPod();
    const first = await startRunner(pod);
    await first.reaches(up);
    await first.guest('echo kept > /root/file; sync');
    const qemu = await first.qemuPid();
    first.process.kill('SIGKILL');
    kill(qemu);
    await first.exitCode();
    const second = await startRunner(pod);
    await second.reaches({ ...up, restarts: 1 });
    expect(second.client.fingerprint()).toBe(first.client.fingerprint());
    expect(await second.guest('cat /root/file')).toBe('kept\n');
    await second.client.power({ action: 'stop' });
    second.process.kill('SIGKILL');
    await second.exitCode();
    const third = await startRunner(pod);
    await third.reaches({ powerState: 'Stopped', reason: 'Requested' });
  });

  test('under its guest again and again is told of as any guest that crashes, and the guest is not booted any more', async () => {
    const pod = await aPod({ restart: { limit: 1 } });
    for (const restarts of [0, 1]) {
      const runner = await startRunner(pod);
      await runner.reaches({ powerState: 'Running', restarts });
      const qemu = await runner.qemuPid();
      runner.process.kill('SIGKILL');
      kill(qemu);
      await runner.exitCode();
    }
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Failed', reason: 'QemuCrashed', retrying: false, restarts: 2 });
    expect(await runner.qemuPid()).toBe(0);
    expect(await runner.client.power({ action: 'start' })).toMatchObject({
      powerState: 'Running',
      restarts: 0,
    });
  });

  test('says that a suspended guest was lost with it, and a new pod follows the request it was made with', async () => {
    const pod = await aPod();
    const first = await startRunner(pod);
    await first.reaches({ powerState: 'Running' });
    await first.client.power({ action: 'suspend' });
    const qemu = await first.qemuPid();
    first.process.kill('SIGKILL');
    kill(qemu);
    await first.exitCode();
    const second = await startRunner(pod);
    await second.reaches({ powerState: 'Stopped', reason: 'SuspendedStateLost' });
    second.process.kill('SIGTERM');
    expect(await second.exitCode()).toBe(0);
    const third = await startRunner(inNewPod(pod));
    await third.reaches({ powerState: 'Running' });
  });

  test('as the first process of its pod hears a SIGTERM that comes before it has read what it is to run', async () => {
    // The runner waits for its settings: whoever writes them knows that it has come so far.
    const script = `cd "$SVC3_ROOT${dirname(runnerPaths.spec)}"
      mv runner-spec given
      mkfifo runner-spec
      { exec 3> runner-spec; kill -TERM 1; cat given >&3; } &
      exec "$@"`;
    const within = ['unshare', '--pid', '--fork', '--kill-child', 'sh', '-c', script, 'sh'];
    await expect(startRunner(await aPod(), {}, within)).rejects.toThrow(/ended with 0:/);
  });

  test('SIGTERM takes a suspended guest down cleanly', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.client.power({ action: 'suspend' });
    runner.process.kill('SIGTERM');
    expect(await runner.exitCode()).toBe(0);
    expect(runner.log()).toContain('"by":"guestShutdown"');
    expect(runner.log()).not.toContain('"level":50');
  });

  test('SIGTERM has QEMU ended by the runner, without an error, where the guest does not listen', async () => {
    const runner = await startRunner(await aPod({ graceSeconds: 4 }));
    // In the boot loader nobody hears the power button.
    await runner.reaches({ powerState: 'Running' });
    runner.process.kill('SIGTERM');
    expect(await runner.exitCode()).toBe(0);
    expect(runner.log()).toContain('"by":"runner"');
    expect(runner.log()).not.toContain('"level":50');
  });
});

test('half-way through the grace period the guest agent is asked where nobody listens to the power button', async () => {
  const runner = await startRunner(await aPod({ graceSeconds: 60 }));
  await runner.reaches(up);
  // The agent runs /sbin/shutdown, which BusyBox does not bring.
  await runner.guest(
    "until killall dd; do sleep 0.1; done; printf '#!/bin/sh\\npoweroff\\n' > /sbin/shutdown; chmod +x /sbin/shutdown",
  );
  runner.process.kill('SIGTERM');
  expect(await runner.exitCode()).toBe(0);
  expect(runner.log()).toContain('"by":"guestShutdown"');
});
