import { describe, expect, test } from 'vitest';
import { allowBootTime, aPod, kill, startRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;

describe('what happens by itself', () => {
  test('a guest that shuts itself down stays off, and who waits for a change hears of it', async () => {
    const runner = await startRunner(await aPod());
    const { revision } = await runner.reaches(up);
    const change = runner.client.state({ revision, waitSeconds: 50 });
    await runner.guest('poweroff').catch(() => undefined);
    expect(await change).toMatchObject({ powerState: 'Stopped', reason: 'GuestShutdown' });
    expect(await runner.qemuPid()).toBe(0);
  });

  test('after a QEMU that was killed the VM boots again and its reason was seen', async () => {
    const runner = await startRunner(await aPod());
    const { revision } = await runner.reaches(up);
    const change = runner.client.state({ revision, waitSeconds: 50 });
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

  test('a guest that panics is ended and started again', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo c > /proc/sysrq-trigger').catch(() => undefined);
    await expect.poll(() => runner.log(), { timeout: 150_000 }).toContain('"reason":"GuestPanicked"');
    await runner.reaches({ powerState: 'Running', restarts: 1 });
  });
});
