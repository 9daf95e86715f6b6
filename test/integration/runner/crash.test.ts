import { stat } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { runnerPaths, type RunnerState } from '../../../src/api/runner.ts';
import { kill } from '../../support/processes.ts';
import { allowBootTime, aPod, type Pod, type RunningRunner, startRunner } from './harness.ts';

allowBootTime();

/** The file of the disk, as the file system knows it. */
const overlayOf = async (pod: Pod) => (await stat(`${pod.root}${runnerPaths.state}/disk.qcow2`)).ino;

/** A long poll that ends without news is asked again. */
async function changed({ client }: RunningRunner, revision: number): Promise<RunnerState> {
  for (;;) {
    const state = await client.state({ revision, waitSeconds: 50 });
    if (state.revision !== revision) return state;
  }
}

const up = { powerState: 'Running', guestReachable: true } as const;

describe('what happens by itself', () => {
  test('a guest that shuts itself down stays off, and who waits for a change hears of it', async () => {
    const runner = await startRunner(await aPod());
    const { revision } = await runner.reaches(up);
    const change = changed(runner, revision);
    await runner.guest('poweroff').catch(() => undefined);
    expect(await change).toMatchObject({ powerState: 'Stopped', reason: 'GuestShutdown' });
    expect(await runner.qemuPid()).toBe(0);
  });

  test('after a QEMU that was killed the VM boots again and its reason was seen', async () => {
    const runner = await startRunner(await aPod());
    const { revision } = await runner.reaches(up);
    const change = changed(runner, revision);
    kill(await runner.qemuPid());
    expect(await change).toMatchObject({ guestReachable: false });
    await runner.reaches({ ...up, restarts: 1 });
    expect(runner.log()).toContain('"reason":"QemuCrashed"');
    expect(runner.log()).toContain('QEMU was killed by SIGKILL; starting again in 1 s');
  });

  test('with restart policy Never a crash is final until somebody starts the VM', async () => {
    const runner = await startRunner(await aPod({ restart: { policy: 'Never' } }));
    await runner.reaches({ powerState: 'Running' });
    kill(await runner.qemuPid());
    await runner.reaches({ powerState: 'Failed', reason: 'QemuCrashed', retrying: false });
    expect(await runner.client.power({ action: 'start' })).toMatchObject({ powerState: 'Running' });
  });

  test('a start after the last restart allows as many again, once per request, and the disk stays', async () => {
    const pod = await aPod({ restart: { limit: 1 } });
    const runner = await startRunner(pod);
    await runner.reaches({ powerState: 'Running', guestStarted: true });
    const disk = await overlayOf(pod);
    kill(await runner.qemuPid());
    await runner.reaches({ powerState: 'Running', restarts: 1 });
    kill(await runner.qemuPid());
    await runner.reaches({ powerState: 'Failed', retrying: false, restarts: 2 });
    const request = { action: 'start', startRequest: 'again' } as const;
    const started = { powerState: 'Running', restarts: 0, startRequest: 'again' };
    expect(await runner.client.power(request)).toMatchObject(started);
    const pid = await runner.qemuPid();
    expect(await runner.client.power(request)).toMatchObject(started);
    expect(await runner.qemuPid()).toBe(pid);
    kill(pid);
    await runner.reaches({ powerState: 'Running', restarts: 1 });
    expect(await overlayOf(pod)).toBe(disk);
  });

  test('a suspended guest whose QEMU is killed is stopped and says why, and a start boots it', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches({ powerState: 'Running' });
    await runner.client.power({ action: 'suspend' });
    kill(await runner.qemuPid());
    await runner.reaches({
      powerState: 'Stopped',
      reason: 'SuspendedStateLost',
      message: 'the suspended guest was lost: QEMU was killed by SIGKILL',
      retrying: false,
      restarts: 0,
    });
    expect(await runner.client.power({ action: 'start' })).toMatchObject({ powerState: 'Running' });
  });

  test('a guest that panics is ended and started again', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo c > /proc/sysrq-trigger').catch(() => undefined);
    await expect.poll(() => runner.log(), { timeout: 150_000 }).toContain('"reason":"GuestPanicked"');
    await runner.reaches({ powerState: 'Running', restarts: 1 });
  });
});
