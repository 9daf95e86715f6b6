import { beforeAll, expect, test, vi } from 'vitest';
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
    const spec = {
      cpu: 2,
      memory: '384Mi',
      systemSerial: 'SERIAL-2',
      metadata: [{ name: 'role', value: 'web' }],
    };
    const patch = JSON.stringify({ spec });
    await cluster.kubectl('patch', 'vms.svc3.dev', ...namespace, vm.name, '--type=merge', '-p', patch);
    const waits = async () => conditionOf(await vm.get(), 'RestartRequired');
    await expect.poll(waits, eventually).toMatchObject({
      status: 'True',
      message: 'spec.cpu, spec.memory, spec.metadata, spec.systemSerial apply when the guest is started next',
    });
    expect(await cluster.svc3('vm', 'restart', vm.name, ...namespace)).toMatchObject({ code: 0 });
    await expect.poll(waits, eventually).toBeUndefined();
    const { ip = '', ports } = (await vm.untilReady()).status ?? {};
    const guest = { ip, port: ports?.ssh ?? 0, user: 'root' };
    const look = 'cat /sys/class/dmi/id/product_serial /home/admin/file; nproc; grep MemTotal /proc/meminfo';
    // The guest agent answers before SSH does.
    const seen = await vi.waitFor(() => cluster.ssh(guest, look), eventually);
    const [serial, file, processors, memory = ''] = seen.split('\n');
    expect([serial, file, processors]).toEqual(['SERIAL-2', 'here', '2']);
    // What the kernel keeps for itself is not in it.
    expect(Number(/\d+/.exec(memory)?.[0])).toBeGreaterThan(300 * 1024);
    const resources = ['get', 'pod', ...namespace, `svc3-vm-${vm.name}`, '-o'] as const;
    const actual = 'jsonpath={.status.containerStatuses[0].resources.limits.memory}';
    expect(await cluster.kubectl(...resources, actual)).toBe('844Mi');
    expect(await podUid()).toBe(before);
    await vm.delete();
  },
);
