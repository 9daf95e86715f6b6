import { expect, test } from 'vitest';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

test('a VM boots from its image until the guest answers, and is taken down cleanly by SIGTERM', async () => {
  const runner = await startRunner(await aPod());
  const state = await runner.reaches({ powerState: 'Running', guestReachable: true });
  expect(state).toMatchObject({
    version: 1,
    vmUid: runner.pod.spec.vm.uid,
    retrying: false,
    restarts: 0,
    vncConsole: true,
  });
  await expect.poll(() => runner.serial(), { timeout: 150_000 }).toContain('READY');
  runner.process.kill('SIGTERM');
  expect(await runner.exitCode()).toBe(0);
  expect(runner.log()).toContain('"by":"guestShutdown"');
  expect(runner.log()).not.toContain('"level":50');
});
