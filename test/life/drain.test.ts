import { afterEach, beforeAll, expect, test } from 'vitest';
import { createVm, type E2eCluster, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

let vm: TestVm | undefined;
let drained = '';
afterEach(async () => {
  if (drained !== '') await cluster.kubectl('uncordon', drained);
  await vm?.delete();
});

test('kubectl drain shuts the guest down, and the VM boots on another node from its Persistent disk', async () => {
  const driven = await createVm(cluster, 'driven', {
    disk: { storage: 'Persistent', size: '256Mi', whenDeleted: 'Delete' },
  });
  vm = driven;
  drained = (await driven.untilReady()).status?.node ?? '';
  // Only in the memory of the guest yet: whoever cuts it off loses this.
  await driven.ssh('echo kept > kept');
  const options = ['--ignore-daemonsets', '--delete-emptydir-data', '--timeout=200s'];
  const told = await cluster.kubectl('drain', drained, '--pod-selector=svc3.dev/vm=driven', ...options);
  expect(told).toContain(`node/${drained} drained`);
  const elsewhere = async (): Promise<boolean> => {
    const node = (await driven.get())?.status?.node;
    return node !== undefined && node !== drained;
  };
  await expect.poll(elsewhere, eventually).toBe(true);
  expect(await driven.ssh('cat kept')).toBe('kept');
  await driven.untilReady();
  const events = await cluster.kubectl(
    'get',
    'events',
    '-n',
    'svc3-default',
    '--field-selector=involvedObject.kind=VM,involvedObject.name=driven,reason=DiskReset',
    '-o',
    'name',
  );
  expect(events).toBe('');
}, 600_000);

test('a guest that the end of its pod suspends goes on on another node, its uptime with it', async () => {
  const driven = await createVm(cluster, 'carried', {
    disk: { storage: 'Persistent', size: '512Mi', whenDeleted: 'Delete' },
    onEviction: 'Suspend',
  });
  vm = driven;
  drained = (await driven.untilReady()).status?.node ?? '';
  // A boot would end it.
  await driven.ssh('sleep 100000 < /dev/null > /dev/null 2>&1 &');
  const options = ['--ignore-daemonsets', '--delete-emptydir-data', '--timeout=200s'];
  await cluster.kubectl('drain', drained, '--pod-selector=svc3.dev/vm=carried', ...options);
  const warmStart = async () => {
    const status = (await driven.get())?.status;
    if (status?.node === drained) return undefined;
    return status?.conditions?.find(({ type }) => type === 'WarmStart');
  };
  await expect.poll(warmStart, eventually).toMatchObject({ status: 'True', reason: 'StartedFromMemory' });
  expect(await driven.ssh('ps | grep "[s]leep 100000"')).toContain('sleep');
  await driven.untilReady();
}, 600_000);
