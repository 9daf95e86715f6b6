/**
 * GPU passthrough end to end on an emulated machine (`svc3 dev up --gpu-node`): real PCI, IOMMU groups, VFIO, kubelet and
 * device plugin; a guest that finds its cards and lets one of them compute.
 */
import { homedir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { down, up } from '../../src/localcluster/cluster/cluster.ts';
import { gpuNode } from '../../src/localcluster/gpu/gpunode.ts';
import { placesOf } from '../../src/localcluster/shared/state.ts';
import { conditionOf, createVm, type E2eCluster, e2eCluster, type TestVm } from '../support/e2e.ts';

/** Everything on that node is emulated, and what a VM runs there twice. */
const slowly = { timeout: 1_200_000, interval: 1_000 };
// Three such waits may come one after the other.
vi.setConfig({ testTimeout: 3 * slowly.timeout + 100_000 });

const running = process.env['SVC3_E2E_CLUSTER'] || undefined;
const name = running ?? `gpu-${process.pid}`;
const places = placesOf(name, process.env, homedir());
// With a port to ask for, the kubelet's probe is held back until the guest answers. Without one it comes every two seconds once the guest's time
// is up, and its handshake takes the emulated machine as long.
const onGpu = { gpuPassthrough: 'Enabled', readiness: { tcp: { port: 22 } } };

let cluster: E2eCluster;
const deployed: TestVm[] = [];

beforeAll(async () => {
  const progress = (line: string): void => console.error(line);
  await up({
    places,
    nodes: 1,
    gpuNode: true,
    bound: running === undefined,
    signal: new AbortController().signal,
    progress,
  });
  cluster = await e2eCluster(name);
});

afterAll(async () => {
  if (running === undefined) {
    await down(places, { purge: true });
    return;
  }
  await Promise.all(deployed.map(remove));
  await cluster.svc3('node', 'gpu', 'disable', gpuNode.name);
});

async function deploy(vmName: string): Promise<TestVm> {
  const vm = await createVm(cluster, vmName, onGpu);
  deployed.push(vm);
  return vm;
}

async function remove(vm: TestVm): Promise<void> {
  const which = ['-n', 'svc3-default', vm.name];
  await cluster.kubectl('delete', 'vms.svc3.dev', ...which, '--ignore-not-found', '--wait=false');
  await vi.waitFor(async () => expect(await vm.get()).toBeUndefined(), slowly);
}

const isBooted = async (vm: TestVm) => conditionOf(await vm.get(), 'Booted');
const isReady = async (vm: TestVm) => conditionOf(await vm.get(), 'Ready');
const scheduled = async (vm: TestVm) => conditionOf(await vm.get(), 'Scheduled');

/** What the guest wrote on its serial console. */
async function serialConsole(vm: TestVm): Promise<string> {
  const pod = (await vm.get())?.status?.podName ?? '';
  return cluster.kubectl('logs', '-n', 'svc3-default', pod).catch(String);
}

async function administrator(verb: 'enable' | 'disable'): Promise<void> {
  const { code, stderr } = await cluster.svc3('node', 'gpu', verb, gpuNode.name);
  expect(code, stderr).toBe(0);
}

const column = (text: string): Promise<string> =>
  cluster.kubectl('get', 'node', gpuNode.name, '-o', `jsonpath=${text}`);

describe('a machine with two GPUs', () => {
  test('is labelled once the administrator enables it (spec: GPU passthrough rule 3)', async () => {
    const reason = '{.metadata.annotations.svc3\\.dev/gpu-passthrough-reason}';
    await expect.poll(() => column(reason), slowly).toContain(`svc3 node gpu enable ${gpuNode.name}`);
    await administrator('enable');
    const label = '{.metadata.labels.svc3\\.dev/gpu-passthrough}';
    await expect.poll(() => column(label), slowly).toBe('enabled');
    const capacity = '{.status.allocatable.svc3\\.dev/gpu-passthrough}';
    await expect.poll(() => column(capacity), slowly).toBe('1');
  });

  test('gives both cards to one VM, whose guest sees them and computes on a device', async () => {
    const vm = await deploy('first');
    await expect.poll(() => isReady(vm), slowly).toMatchObject({ status: 'True' });
    expect((await vm.get())?.status?.node).toBe(gpuNode.name);
    await expect.poll(() => serialConsole(vm), slowly).toContain('READY up');
    const seen = (await serialConsole(vm)).split('\n').map((line) => line.trim());
    expect(seen.filter((line) => line === 'PCI 0x1002:0x5159')).toHaveLength(2);
    expect(seen).toContain('PCI 0x1234:0x11e8 5!=0x00000078');
  });

  test('lets a second VM wait, say why, and start by itself when the first is gone (spec: Limits)', async () => {
    const second = await deploy('second');
    await expect
      .poll(() => scheduled(second), slowly)
      .toMatchObject({
        reason: 'Unschedulable',
        message: '0/2 nodes are available: 1 GPU passthrough in use, 1 not enabled for GPU passthrough.',
      });
    await remove(deployed[0] as TestVm);
    // Its QEMU has the cards by then; how a guest sees them, the first one told.
    await expect.poll(() => isBooted(second), slowly).toMatchObject({ status: 'True' });
  });

  test('takes no more VMs once it is disabled, and leaves the one that runs', async () => {
    const second = deployed[1] as TestVm;
    const before = (await second.get())?.metadata.uid;
    await administrator('disable');
    const third = await deploy('third');
    const refused = {
      reason: 'Unschedulable',
      message: '0/2 nodes are available: 2 not enabled for GPU passthrough.',
    };
    await expect.poll(() => scheduled(third), slowly).toMatchObject(refused);
    expect(await isBooted(second)).toMatchObject({ status: 'True' });
    expect((await second.get())?.metadata.uid).toBe(before);
    await remove(second);
    // Whatever changes of it, the operator judges it anew.
    const change = ['--type=merge', '-p', '{"spec": {"systemSerial": "again"}}'];
    const printed = ['-o', 'jsonpath={.metadata.generation}'];
    const generation = await cluster.kubectl(
      'patch',
      'vms.svc3.dev',
      '-n',
      'svc3-default',
      third.name,
      ...change,
      ...printed,
    );
    await expect
      .poll(() => scheduled(third), slowly)
      .toMatchObject({ ...refused, observedGeneration: Number(generation) });
  });
});
