import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { RunnerSpec } from '../../../src/api/runner.ts';
import { Hibernation } from '../../../src/runner/hibernation.ts';
import { Launcher } from '../../../src/runner/launcher.ts';
import { type SavedState, StateFile } from '../../../src/runner/statefile.ts';
import { createStatusBoard } from '../../../src/runner/status.ts';

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'svc3-launcher-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
});

/** A launcher of a guest that has run on its disk before, in a pod without a disk file unless it gets one: every start fails. */
function aLauncher(saved: Partial<SavedState>, warm: boolean) {
  const status = createStatusBoard({
    powerState: 'Stopped',
    guestReachable: false,
    retrying: false,
    restarts: 0,
    ports: [],
    ejected: false,
    guestStarted: true,
  });
  const state = new StateFile(join(folder, 'state.json'), 'pod', {
    version: 1,
    powerState: 'Running',
    ejected: false,
    ...saved,
  });
  const spec = RunnerSpec.parse({
    vm: { namespace: 'team', name: 'web', uid: 'u' },
    cpu: 1,
    memoryMiB: 64,
    graceSeconds: 1,
    firmware: 'bios',
    accelerator: 'tcg',
    warm,
  });
  const host = {
    spec,
    folders: { image: folder, state: folder, run: folder },
    gpuAddresses: [],
    bind: '127.0.0.1',
    path: folder,
  };
  const parts = { host: () => host, state, status, serial: { attach: () => undefined } };
  return {
    status,
    launcher: new Launcher({ ...parts, memory: new Hibernation({ state: folder }, state) } as never),
  };
}

test.each([true, false])(
  'why a suspended guest was lost is told until a guest has been started: of an image with memory %s',
  async (warm) => {
    const { status, launcher } = aLauncher({ notSuspended: 'the claim has no room' }, warm);
    const told = { fromMemory: false, reason: 'NotSuspended', message: 'the claim has no room' };
    for (const _start of ['first', 'again']) {
      await expect(launcher.launch()).rejects.toMatchObject({ reason: 'DiskMissing' });
      expect(status.current.warmStart).toEqual(told);
    }
  },
);

test('of a guest that has run on its disk the memory of the image is used', async () => {
  const { status, launcher } = aLauncher({}, true);
  await expect(launcher.launch()).rejects.toMatchObject({ reason: 'DiskMissing' });
  expect(status.current.warmStart).toMatchObject({ fromMemory: false, reason: 'MemoryUsed' });
});

/** A disk, and a QEMU that ends at once: what the state file says by then is in `seen`. */
async function aQemuThatEnds(): Promise<void> {
  await mkdir(join(folder, 'disk'));
  await writeFile(join(folder, 'disk', 'disk.raw'), Buffer.alloc(512));
  const script = `#!/bin/sh\n/bin/cp '${folder}/state.json' '${folder}/seen'\nexit 1\n`;
  await writeFile(join(folder, 'qemu-system-x86_64'), script, { mode: 0o700 });
  vi.stubEnv('PATH', folder);
  onTestFinished(() => void vi.unstubAllEnvs());
}

test('a boot uses the disk up for the memory of its image, also in a pod that is told of none: the next may be', async () => {
  await aQemuThatEnds();
  const { launcher } = aLauncher({ untouched: true }, false);
  await expect(launcher.launch()).rejects.toMatchObject({ reason: 'StartFailed' });
  expect(JSON.parse(await readFile(join(folder, 'seen'), 'utf8'))).toMatchObject({ untouched: false });
});
