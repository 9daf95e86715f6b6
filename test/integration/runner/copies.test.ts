import { expect, test, vi } from 'vitest';
import { connectQmp } from '../../../src/runner/qmp.ts';
import { socketPaths } from '../../../src/runner/args.ts';
import { runnerPaths } from '../../../src/api/runner.ts';

import { givingHook } from '../../support/hook.ts';
import { kill } from '../../support/processes.ts';
import { aPod, startRunner } from './harness.ts';
import { anImageOf, aPodOf, saved } from './savedimage.ts';

// A boot, a save and ten starts, on an emulated machine.
vi.setConfig({ testTimeout: 600_000 });

const copies = 10;
/** So many run at the same time. */
const atOnce = 2;

/**
 * What the owner of an image does with the hook (docs/images.md): the guest has another machine-id and another host key. The first bytes of the
 * kernel's are taken before anything else asks for some.
 */
const hook = givingHook(`bytes() { head -c "$1" /dev/urandom | od -An -v -tx1 | tr -d ' \\n'; }
bytes 32 > /tmp/random
bytes 16 > /etc/machine-id
rm -f /etc/dropbear/host; dropbearkey -t ed25519 -f /etc/dropbear/host > /tmp/key 2>&1
cat > /tmp/told`);

/** What of a copy is its own, each with what it is. */
async function ownOf(image: string): Promise<Record<string, string>> {
  const pod = await aPodOf(image, { metadata: [] });
  const runner = await startRunner(pod);
  const { warmStart } = await runner.reaches({ powerState: 'Running', guestReachable: true });
  expect(warmStart).toMatchObject({ fromMemory: true, reason: 'StartedFromMemory' });
  // What the hook was told is the last thing that it writes, and the guest does not count as running before.
  expect(await runner.guest('cat /tmp/told')).toContain(pod.spec.vm.uid);
  const own = {
    random: await runner.guest('cat /tmp/random'),
    machineId: await runner.guest('cat /etc/machine-id'),
    hostKey: await runner.guest('grep -o "^ssh-ed25519 [^ ]*" /tmp/key'),
  };
  const qemu = await runner.qemuPid();
  // Its runner lets go of the monitor then.
  kill(runner.process.pid ?? 0);
  await runner.exitCode();
  const qmp = await connectQmp(socketPaths(pod.root + runnerPaths.run).qmp, AbortSignal.timeout(60_000));
  const { guid } = await qmp.execute<{ guid: string }>('query-vm-generation-id');
  qmp.close();
  kill(qemu);
  return { ...own, generation: guid };
}

test('ten guests from one memory have ten of everything that must be one guest’s own', async () => {
  const original = await startRunner(await aPod());
  await original.reaches({ powerState: 'Running', guestReachable: true });
  await original.guest(`${hook}; echo of-the-image > /etc/machine-id; sync`);
  await saved(original, 'image');
  const image = await anImageOf(original, 'image');
  kill(await original.qemuPid());
  kill(original.process.pid ?? 0);
  const found: Record<string, string>[] = [];
  while (found.length < copies)
    found.push(...(await Promise.all(Array.from({ length: atOnce }, () => ownOf(image)))));
  for (const what of ['random', 'machineId', 'hostKey', 'generation']) {
    const values = found.map((own) => own[what]);
    expect(values.every((value) => value !== undefined && value.length >= 32)).toBe(true);
    expect({ [what]: new Set(values).size }).toEqual({ [what]: copies });
  }
});
