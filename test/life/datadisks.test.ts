import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

const made: TestVm[] = [];
afterEach(async () => {
  await Promise.all(made.splice(0).map((vm) => vm.delete()));
});

async function create(name: string, disks: object[]): Promise<TestVm> {
  const vm = await createVm(cluster, name, { disks });
  made.push(vm);
  return vm;
}

/** Runs a script in the guest as root, with `$disk` the device of the data disk of this name. */
function asRoot(vm: TestVm, name: string, script: string): Promise<string> {
  const command = `disk=/dev/$(grep -lx ${name} /sys/block/*/serial | cut -d/ -f4); ${script}`;
  return vi.waitFor(async () => {
    const { ip = '', ports } = (await vm.get())?.status ?? {};
    return (await cluster.ssh({ ip, port: ports?.ssh ?? 0, user: 'root' }, command)).trim();
  }, eventually);
}

test('a data disk outlives the VM that it was made for, and goes with the next one that has it', async () => {
  const claim = `svc3-vm-data1-${process.pid}.logs`;
  const isThere = () =>
    cluster.kubectl('get', 'pvc', '-n', 'svc3-default', claim, '--ignore-not-found', '-o', 'name');
  const first = await create(`data1-${process.pid}`, [{ name: 'logs', size: '64Mi' }]);
  await asRoot(first, 'logs', 'echo remembered | dd of=$disk conv=fsync 2>/dev/null');
  const told = await cluster.svc3('vm', 'delete', first.name, '-n', 'svc3-default');
  expect([told.code, told.stderr]).toEqual([
    0,
    expect.stringContaining(`disks[logs] of VM ${first.name} stays in PersistentVolumeClaim ${claim}`),
  ]);
  const disk = { name: 'before', claimName: claim, whenDeleted: 'Delete' };
  const second = await create(`data2-${process.pid}`, [disk]);
  expect(await asRoot(second, 'before', 'dd if=$disk bs=10 count=1 2>/dev/null')).toBe('remembered');
  expect(await isThere()).toBe(`persistentvolumeclaim/${claim}\n`);
  await second.delete();
  await expect.poll(isThere, eventually).toBe('');
}, 600_000);
