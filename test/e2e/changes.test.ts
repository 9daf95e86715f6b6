import { beforeAll, expect, test } from 'vitest';
import { conditionOf, createVm, type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

const namespace = ['-n', 'svc3-default'] as const;

test(
  'a VM with an Ephemeral disk has changed settings after a restart, in the same pod and with the same disk',
  { timeout: 600_000 },
  async () => {
    const vm = await createVm(cluster, `changed-${process.pid}`);
    await vm.ssh('echo here > file && sync');
    const podUid = () =>
      cluster.kubectl('get', 'pod', ...namespace, `svc3-vm-${vm.name}`, '-o', 'jsonpath={.metadata.uid}');
    const before = await podUid();
    const spec = { systemSerial: 'SERIAL-2', metadata: [{ name: 'role', value: 'web' }] };
    const patch = JSON.stringify({ spec });
    await cluster.kubectl('patch', 'vms.svc3.dev', ...namespace, vm.name, '--type=merge', '-p', patch);
    const waits = async () => conditionOf(await vm.get(), 'RestartRequired');
    await expect.poll(waits, eventually).toMatchObject({
      status: 'True',
      message: 'spec.metadata, spec.systemSerial apply when the guest is started next',
    });
    expect(await cluster.svc3('vm', 'restart', vm.name, ...namespace)).toMatchObject({ code: 0 });
    await expect.poll(waits, eventually).toBeUndefined();
    const { ip = '', ports } = (await vm.untilReady()).status ?? {};
    const guest = { ip, port: ports?.ssh ?? 0, user: 'root' };
    const seen = 'cat /sys/class/dmi/id/product_serial /home/admin/file';
    expect(await cluster.ssh(guest, seen)).toBe('SERIAL-2\nhere\n');
    expect(await podUid()).toBe(before);
    await vm.delete();
  },
);
