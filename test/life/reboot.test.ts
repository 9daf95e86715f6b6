import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { placesOf } from '../../src/localcluster/shared/state.ts';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

/** A cluster of its own: its node is turned off. */
const places = placesOf(`beside-${process.pid}`, process.env, homedir());
const start = (): Promise<boolean> =>
  up({
    places,
    nodes: 1,
    // The cluster that all other tests share has it, and is tested with it (addons.test.ts).
    hostLink: false,
    bound: true,
    signal: new AbortController().signal,
    progress: (line) => console.error(line),
  });

let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster(places.name);
});
afterAll(() => down(places, { purge: true }));

const bootOf = (vm: TestVm): Promise<string> => vm.ssh('cat /proc/sys/kernel/random/boot_id');
const uidOf = (vm: TestVm): Promise<string> =>
  cluster.kubectl('get', 'pod', '-n', 'svc3-default', `svc3-vm-${vm.name}`, '-o', 'jsonpath={.metadata.uid}');

test('VMs are shut down with their node, and boot from their disks when it is back', async () => {
  await start();
  const made = [
    await createVm(cluster, 'persistent', {
      disk: { storage: 'Persistent', size: '256Mi', whenDeleted: 'Delete' },
    }),
    await createVm(cluster, 'ephemeral'),
  ];
  const before = await Promise.all(
    made.map(async (vm) => {
      await vm.untilReady();
      return { vm, uid: await uidOf(vm), boot: await bootOf(vm) };
    }),
  );
  // Only in the memory of the guest yet: whoever cuts it off loses this.
  for (const vm of made) await vm.ssh('echo kept > kept');
  expect(await down(places, { purge: false })).toBe(true);

  expect(await start()).toBe(true);
  for (const { vm, uid, boot } of before) {
    await vi.waitFor(async () => expect(await bootOf(vm)).not.toBe(boot), eventually);
    expect(await vm.ssh('cat kept')).toBe('kept');
    expect(await uidOf(vm)).toBe(uid);
    await vm.untilReady();
  }
}, 600_000);

test('a purge leaves nothing behind, not even its lock', async () => {
  await down(places, { purge: true });
  expect([places.state, `${places.state}.lock`].filter(existsSync)).toEqual([]);
});
