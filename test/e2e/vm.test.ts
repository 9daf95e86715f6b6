import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type E2eCluster, createVm, e2eCluster, eventually, type TestVm } from '../support/e2e.ts';

let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

const podOf = (vm: TestVm): string => `svc3-vm-${vm.name}`;
const pods = async (...parameters: string[]): Promise<string> =>
  cluster.kubectl('get', 'pods', ...parameters);

describe('the life of a VM', () => {
  let vm: TestVm;
  beforeAll(async () => {
    vm = await createVm(cluster, 'life');
  });
  afterAll(() => vm.delete());

  test('it becomes ready and lets one log in', async () => {
    await vm.untilReady();
    expect(await vm.ssh('hostname')).toBe('life');
  });

  test('kubectl logs shows the console of the guest', async () => {
    await expect
      .poll(() => cluster.kubectl('logs', '-n', 'svc3-default', podOf(vm)), eventually)
      .toContain('READY');
  });

  test('a deleted VM takes its pod along', async () => {
    await vm.delete();
    expect(await vm.get()).toBeUndefined();
    await expect
      .poll(() => pods('-n', 'svc3-default', podOf(vm), '--ignore-not-found', '-o', 'name'), eventually)
      .toBe('');
  });
});

describe('a VM with 35 metadata values of 4,000 bytes', () => {
  let vm: TestVm;
  const metadata = Array.from({ length: 35 }, (_, index) => ({
    name: `name-${index}`,
    value: `$$(HOSTNAME) ${'v'.repeat(3987)}`,
  }));
  beforeAll(async () => {
    vm = await createVm(cluster, 'large', { metadata });
  });
  afterAll(() => vm.delete());

  test('gives them to its guest, whole', async () => {
    await vm.untilReady();
    expect(await vm.ssh('hostname')).toBe('large');
    // Only root of the guest reads the medium; it lies in the pod as the guest has it.
    const seed = await cluster.kubectl(
      'exec',
      '-n',
      'svc3-default',
      podOf(vm),
      '--',
      'cat',
      '/run/vm/seed.iso',
    );
    for (const { name, value } of metadata) expect(seed).toContain(`${name}: "${value}"\n`);
  });
});

// What the waits of one test add up to.
describe('what dies comes back', { timeout: 600_000 }, () => {
  let vm: TestVm;
  beforeAll(async () => {
    vm = await createVm(cluster, 'survivor');
    await vm.untilReady();
    await vm.ssh('echo kept > kept && sync');
  });
  afterAll(() => vm.delete());

  /** Kills with SIGKILL and waits until what was killed is gone. */
  const kill = async (text: string): Promise<void> => {
    const found = await cluster.processes(text);
    expect(found).not.toEqual([]);
    for (const pid of found) process.kill(pid, 'SIGKILL');
    await expect
      .poll(async () => (await cluster.processes(text)).filter((pid) => found.includes(pid)), eventually)
      .toEqual([]);
  };

  test('the guest runs again after its QEMU was killed, with its disk', async () => {
    const before = await vm.ssh('cat /proc/sys/kernel/random/boot_id');
    await kill('guest=survivor');
    await expect.poll(() => vm.ssh('cat /proc/sys/kernel/random/boot_id'), eventually).not.toBe(before);
    expect(await vm.ssh('cat kept')).toBe('kept');
    await vm.untilReady();
  });

  test('the guest runs again after its runner was killed, in the same pod with its disk', async () => {
    const before = await vm.ssh('cat /proc/sys/kernel/random/boot_id');
    const uid = await pods('-n', 'svc3-default', podOf(vm), '-o', 'jsonpath={.metadata.uid}');
    await kill('/app/runner.js');
    await expect.poll(() => vm.ssh('cat /proc/sys/kernel/random/boot_id'), eventually).not.toBe(before);
    expect(await vm.ssh('cat kept')).toBe('kept');
    expect(await pods('-n', 'svc3-default', podOf(vm), '-o', 'jsonpath={.metadata.uid}')).toBe(uid);
    await vm.untilReady();
  });

  test('the operator is at work again after all its processes were killed, and the guest noticed nothing', async () => {
    const before = await vm.ssh('cat /proc/sys/kernel/random/boot_id');
    await kill('/app/operator.js');
    const other = await createVm(cluster, 'after-operator');
    await other.untilReady();
    await other.delete();
    expect(await vm.ssh('cat /proc/sys/kernel/random/boot_id')).toBe(before);
  });
});
