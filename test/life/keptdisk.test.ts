import { beforeAll, expect, test } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';

let cluster: E2eCluster;

beforeAll(async () => {
  cluster = await e2eCluster();
});

const namespace = ['-n', 'svc3-default'] as const;

test(
  'a Persistent disk outlives its VM, whoever deletes it, until a VM is deleted with it',
  { timeout: 900_000 },
  async () => {
    const claim = `svc3-vm-kept-${process.pid}`;
    const isThere = () =>
      cluster.kubectl('get', 'pvc', ...namespace, claim, '--ignore-not-found', '-o', 'name');
    const disk = { storage: 'Persistent', size: '256Mi' };

    const first = await createVm(cluster, `kept-${process.pid}`, { disk, onEviction: 'Suspend' });
    // In the memory of the guest alone, until it is shut down.
    await first.ssh('echo from the first > kept');
    // Argo CD deletes so: all that an owner reference names goes first.
    await cluster.kubectl('delete', 'vms.svc3.dev', ...namespace, first.name, '--cascade=foreground');
    expect(await isThere()).toBe(`persistentvolumeclaim/${claim}\n`);

    const second = await createVm(cluster, `second-${process.pid}`, { disk: { ...disk, claimName: claim } });
    expect(await second.ssh('cat kept')).toBe('from the first');
    await second.ssh('echo and the second >> kept && sync');
    const told = await cluster.svc3('vm', 'delete', second.name, ...namespace);
    expect([told.code, told.stderr]).toEqual([
      0,
      expect.stringContaining(`stays in PersistentVolumeClaim ${claim}`),
    ]);

    const line = `vm deploy third-${process.pid} -i ${cluster.guest} -c 1 -m 0.25 --claim ${claim}`;
    const deployed = await cluster.svc3(...line.split(' '), ...namespace);
    expect([deployed.code, deployed.stderr]).toEqual([0, expect.any(String)]);
    const third = await createVm(cluster, `third-${process.pid}`);
    expect(await third.ssh('cat kept')).toBe('from the first\nand the second');
    const dropped = await cluster.svc3('vm', 'delete', third.name, '--delete-disk', ...namespace);
    expect([dropped.code, dropped.stderr]).toEqual([0, expect.not.stringContaining('stays')]);
    await expect.poll(isThere, eventually).toBe('');
  },
);
