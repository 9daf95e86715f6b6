import { beforeAll, expect, test } from 'vitest';
import { type E2eCluster, conditionOf, createVm, e2eCluster, eventually } from '../support/e2e.ts';

/** The kubelet looks for a Secret that was missing about once in a minute, and the runner after that. */
const whenSeen = { timeout: 300_000, interval: 500 };

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

test(
  'user data of cloud-init comes from one key of a Secret, also of one that is made after the VM',
  { timeout: 600_000 },
  async () => {
    const name = `userdata-${process.pid}`;
    // The guest agent answers before SSH does.
    const readiness = { tcp: { port: 22 } };
    const vm = await createVm(cluster, name, { userData: { secretName: name }, readiness });
    const told = async (type: string) => conditionOf(await vm.get(), type);
    await expect
      .poll(() => told('Booted'), eventually)
      .toMatchObject({
        status: 'False',
        reason: 'UserDataMissing',
        message: expect.stringContaining(`Secret ${name} of spec.userData does not exist`),
      });
    await cluster.kubectl.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'svc3-default' },
      stringData: { userData: '#!/bin/sh\necho from a Secret\n', other: 'not for guests' },
    });
    await expect.poll(() => told('Ready'), whenSeen).toMatchObject({ status: 'True' });
    const script = 'mkdir -p /tmp/s && mount -o ro /dev/vdb /tmp/s && cat /tmp/s/user-data';
    const { ip = '', ports } = (await vm.get())?.status ?? {};
    const guest = { ip, port: ports?.ssh ?? 0, user: 'root' };
    expect(await cluster.ssh(guest, script)).toBe('#!/bin/sh\necho from a Secret\n');
    const files = await cluster.kubectl(
      'exec',
      '-n',
      'svc3-default',
      `svc3-vm-${name}`,
      '--',
      'ls',
      '/etc/svc3/userdata',
    );
    expect(files).toBe('userData\n');
    await vm.delete();
    await cluster.kubectl('delete', 'secret', '-n', 'svc3-default', name);
  },
);
