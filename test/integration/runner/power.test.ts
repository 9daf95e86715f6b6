import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

const up = { powerState: 'Running', guestReachable: true } as const;

describe('power verbs', () => {
  test('suspend and resume keep what runs in the guest, and a verb that does not fit names the state', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo kept > /tmp/memory');
    /** By how much the guest's clock is behind, in seconds: nobody knows when between question and answer it was read. */
    const behind = async () => {
      const askedAt = Date.now() / 1000;
      const guest = Number(await runner.guest('date +%s'));
      return { least: askedAt - guest, most: Date.now() / 1000 - guest };
    };
    const before = await behind();
    await expect(runner.client.power({ action: 'resume' })).rejects.toThrow(
      'cannot resume the VM: it is Running',
    );
    expect(await runner.client.power({ action: 'suspend' })).toMatchObject({ powerState: 'Suspended' });
    await expect(runner.client.power({ action: 'start' })).rejects.toMatchObject({
      reason: 'Conflict',
      message: 'cannot start the VM: it is Suspended',
    });
    // What the guest's clock stands still for.
    await delay(10_000);
    expect(await runner.client.power({ action: 'resume' })).toMatchObject({ powerState: 'Running' });
    expect(await runner.guest('cat /tmp/memory')).toBe('kept\n');
    await expect.poll(async () => (await behind()).least - before.most).toBeLessThan(5);
  });

  test('a guest that goes to sleep by itself is woken', async () => {
    const runner = await startRunner(await aPod({ readiness: { tcp: { port: 22 }, timeoutSeconds: 180 } }));
    await runner.reaches(up);
    const sleep = '(sleep 2; echo mem > /sys/power/state) > /dev/null 2>&1 < /dev/null &';
    await runner.guest(`echo deep > /sys/power/mem_sleep; echo 8 > /proc/sys/kernel/printk; ${sleep}`);
    await expect.poll(() => runner.serial(), { timeout: 150_000 }).toContain('PM: suspend exit');
    const tunnel = await runner.client.openTunnel(22);
    onTestFinished(() => void tunnel.destroy());
    tunnel.on('error', () => undefined);
    expect(String((await once(tunnel, 'data'))[0])).toMatch(/^SSH-/);
  });

  test('stop asks the guest, two verbs at once are done one after the other, start boots the same disk', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo kept > /root/file; sync');
    // Each has a connection of its own: either may come first. The other finds what it asks for.
    const stop = () => runner.client.power({ action: 'stop' });
    const stopped = { powerState: 'Stopped', reason: 'Requested' };
    expect(await Promise.all([stop(), stop()])).toMatchObject([stopped, stopped]);
    await expect(runner.client.power({ action: 'suspend' })).rejects.toThrow(
      'cannot suspend the VM: it is Stopped',
    );
    expect(await runner.qemuPid()).toBe(0);
    await runner.client.power({ action: 'start' });
    await runner.reaches(up);
    expect(await runner.guest('cat /root/file')).toBe('kept\n');
  });

  test('restart shuts the guest down and boots the same disk in a new QEMU, once per request', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo kept > /root/file; sync');
    const pid = await runner.qemuPid();
    await runner.client.power({ action: 'restart', restartRequest: 'first' });
    await runner.reaches({ ...up, restartRequest: 'first' });
    expect(await runner.guest('cat /root/file')).toBe('kept\n');
    expect(runner.log()).toContain('"by":"guestShutdown"');
    const second = await runner.qemuPid();
    expect(second).not.toBe(pid);
    await runner.client.power({ action: 'restart', restartRequest: 'first' });
    expect(await runner.qemuPid()).toBe(second);
  });

  test('stop asks the guest also of a QEMU that is slow to answer', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    const pid = await runner.qemuPid();
    process.kill(pid, 'SIGSTOP');
    const stopping = runner.client.power({ action: 'stop' });
    // Longer than the runner waits to hear what QEMU does.
    await delay(3_000);
    process.kill(pid, 'SIGCONT');
    expect(await stopping).toMatchObject({ powerState: 'Stopped' });
    expect(runner.log()).toContain('"by":"guestShutdown"');
  });

  test('revert boots the image afresh, once per request', async () => {
    const runner = await startRunner(await aPod());
    await runner.reaches(up);
    await runner.guest('echo gone > /root/file; sync');
    await runner.client.power({ action: 'revert', revertRequest: 'first' });
    await runner.reaches({ ...up, revertRequest: 'first' });
    expect(await runner.guest('ls /root/file 2>&1 || true')).toContain('No such file');
    const pid = await runner.qemuPid();
    await runner.client.power({ action: 'revert', revertRequest: 'first' });
    expect(await runner.qemuPid()).toBe(pid);
  });

  test('a stopped VM can be reverted and stay stopped', async () => {
    const runner = await startRunner(await aPod({ powerState: 'Stopped' }));
    await runner.reaches({ powerState: 'Stopped', reason: 'Requested' });
    const state = await runner.client.power({ action: 'revert', revertRequest: 'r', stopped: true });
    expect(state).toMatchObject({ powerState: 'Stopped', revertRequest: 'r' });
    expect(await runner.qemuPid()).toBe(0);
  });
});
