import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { runnerEnvironment } from '../../../src/api/runner.ts';
import { allowBootTime, aPod, startRunner } from './harness.ts';

allowBootTime();

const address = '0000:7f:00.0';
const bundle = { [runnerEnvironment.gpuAddresses]: address };

test('a GPU that QEMU cannot have is told with its words and tried again with growing pauses, in one process', async () => {
  const runner = await startRunner(await aPod({ gpuPassthrough: true, vncConsole: false }), bundle);
  const state = await runner.reaches({ powerState: 'Failed', reason: 'GpuFailed', retrying: true });
  expect(state.message).toMatch(
    /^a GPU cannot be handed to the guest: .*0000:7f:00\.0.*; starting again in \d+ s$/,
  );
  expect(state.restarts).toBe(0);
  const pauses = () =>
    [...runner.log().matchAll(/starting again in (\d+) s/g)].map(([, seconds]) => Number(seconds));
  await expect.poll(() => pauses().length, { timeout: 120_000 }).toBeGreaterThanOrEqual(3);
  const [first = 0, , third = 0] = pauses();
  expect(third).toBeGreaterThan(first);
  expect(runner.process.exitCode).toBeNull();
});

test('a GPU that somebody else holds is waited for: the VM runs once it is free', async () => {
  const pod = await aPod({ gpuPassthrough: true, vncConsole: false });
  const programs = join(pod.root, 'programs');
  const held = join(pod.root, 'held');
  await mkdir(programs);
  await writeFile(held, '');
  // What QEMU says of a VFIO group that another process has open; no such device is on the machine of a test.
  const message = `qemu-system-x86_64: -device vfio-pci,host=${address}: vfio ${address}: failed to open /dev/vfio/2: Device or resource busy`;
  const script = `#!/bin/bash
while [ -n "$1" ]; do
  case "$1 $2" in '-device vfio-pci,'*) shift 2 ;; *) rest+=("$1"); shift ;; esac
done
if rm ${held} 2>/dev/null; then echo "${message}" >&2; exit 1; fi
PATH="$REAL_PATH" exec qemu-system-x86_64 "\${rest[@]}"
`;
  const program = join(programs, 'qemu-system-x86_64');
  await writeFile(program, script);
  await chmod(program, 0o755);
  const path = process.env['PATH'] ?? '';
  const runner = await startRunner(pod, { ...bundle, PATH: `${programs}:${path}`, REAL_PATH: path });
  await runner.reaches({ powerState: 'Running' });
  expect(runner.log()).toContain('a GPU of the node is in use: ');
  expect(runner.log()).toContain('"reason":"GpuBusy"');
});
