import { beforeAll, expect, test } from 'vitest';
import { runnerPaths } from '../../../src/api/runner.ts';
import { createGuestAgent } from '../../../src/runner/agent.ts';
import { socketPaths } from '../../../src/runner/args.ts';
import { renewRandomness } from '../../../src/runner/reseed.ts';
import { testGuestDisk } from '../../support/guest.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

let disk: string;
beforeAll(async () => {
  disk = await testGuestDisk('arm64');
}, 900_000);

test('an ARM guest boots by UEFI, answers, keeps its console beside GPU passthrough, and is shut down by SIGTERM', async () => {
  const runner = await startRunner(
    await aPod({ architecture: 'arm64', gpuPassthrough: true, memoryMiB: 256 }, disk),
  );
  await runner.reaches({ powerState: 'Running', guestReachable: true, vncConsole: true });
  expect(await runner.guest('uname -m; ls -d /sys/firmware/efi')).toBe('aarch64\n/sys/firmware/efi\n');
  await expect.poll(() => runner.serial(), { timeout: 150_000 }).toContain('READY');
  // What a guest from a memory is given; test/integration/runner/copies.test.ts.
  await renewRandomness(createGuestAgent(socketPaths(runner.pod.root + runnerPaths.run).agent), 'arm64');
  runner.process.kill('SIGTERM');
  expect(await runner.exitCode()).toBe(0);
  expect(runner.log()).toContain('"by":"guestShutdown"');
  expect(runner.log()).not.toContain('"level":50');
});
