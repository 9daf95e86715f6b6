import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { readHardware } from '../../../src/api/hardware.ts';
import { nodes } from '../../../src/api/resources.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { testCluster } from '../../support/cluster.ts';
import { type Machine, machines, writeMachine } from '../../support/machines.ts';
import { type PluginKubelet, startPluginKubelet } from '../../support/pluginkubelet.ts';

const program = join(import.meta.dirname, '../../../src/bin/node-agent.ts');
const soon = { interval: 50 };
/** How often the agent looks at the hardware. */
const hardwareMs = 300;
/** How often it looks at the record of the kubelet (src/nodeagent/gpuallocation.ts). */
const recordMs = 2_000;
const kvm = 'svc3.dev/kvm';
const gpu = 'svc3.dev/gpu-passthrough';
const bundle = [{ ID: 'bundle', health: 'Healthy' }];
const towerAddresses = '0000:02:00.0,0000:06:00.0,0000:02:00.1,0000:06:00.1';

let client: KubeClient;
let kubeconfigPath: string;
let name: string;
let root: string;
let kubelet: PluginKubelet;
let agent: ChildProcess | undefined;
/** What the agent has logged. */
let log: string;

beforeAll(async () => {
  ({ client, kubeconfigPath } = await testCluster());
});

beforeEach(async () => {
  const node = await client.create(nodes, { metadata: { generateName: 'agent-' } });
  name = node.metadata.name ?? '';
  root = await mkdtemp(join(tmpdir(), 'svc3-agent-'));
  kubelet = await startPluginKubelet(join(root, 'plugins'));
});

afterEach(async () => {
  await stopAgent();
  await kubelet.stop();
  await rm(root, { recursive: true, force: true });
  await client.delete(nodes, { name }).catch(() => undefined);
});

afterAll(stopAgent);

async function stopAgent(): Promise<void> {
  const child = agent;
  agent = undefined;
  if (child === undefined || child.exitCode !== null) return;
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** The real process, as the DaemonSet starts it, on a machine of files. */
async function startAgent(machine?: Machine): Promise<void> {
  if (machine !== undefined) await writeMachine(root, machine);
  const [port] = (await freePorts(1)) as [number];
  log = '';
  agent = spawn(process.execPath, [program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      PATH: process.env['PATH'] ?? '',
      KUBECONFIG: kubeconfigPath,
      NODE_NAME: name,
      SVC3_HEALTH_PORT: String(port),
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_SYSFS: join(root, 'sys'),
      SVC3_DEV: join(root, 'dev'),
      SVC3_PROC: join(root, 'proc'),
      SVC3_DEVICE_PLUGIN_DIRECTORY: kubelet.directory,
      SVC3_HARDWARE_INTERVAL_MS: String(hardwareMs),
      SVC3_GPU_TOWER_CARDS: '1002:679e',
    },
  });
  agent.stdout?.setEncoding('utf8').on('data', (text: string) => (log += text));
}

async function virtualization(): Promise<void> {
  await mkdir(join(root, 'dev'), { recursive: true });
  await mkdir(join(root, 'proc'), { recursive: true });
  await writeFile(join(root, 'dev/kvm'), '');
  await writeFile(join(root, 'proc/cpuinfo'), 'flags\t: fpu svm\n');
}

const patchMetadata = (metadata: object) =>
  client.patch(nodes, { name }, { type: 'merge', body: { metadata } });
const label = (value: string) => patchMetadata({ labels: { [gpu]: value } });
const annotation = async () =>
  (await client.get(nodes, name)).metadata.annotations?.['svc3.dev/hardware'] ?? undefined;
/** How often the agent has written the annotation: a write that changes nothing leaves no trace in the Node. */
const reports = () => log.split('reported the hardware').length - 1;
const driverOf = (address: string) => join(root, 'sys/bus/pci/devices', address, 'driver');

describe('the hardware annotation', () => {
  test('is what the machine has, and nothing is written while nothing changes', async () => {
    await startAgent(machines.towerTwoD500);
    await expect.poll(async () => readHardware(await annotation()).kind, soon).toBe('hardware');
    expect(JSON.parse((await annotation()) ?? '')).toMatchObject({
      version: 1,
      model: 'MacPro6,1',
      iommu: true,
    });
    await expect.poll(reports, soon).toBeGreaterThan(0);
    const reportsInFourLooks = async () => {
      const before = reports();
      await delay(4 * hardwareMs);
      return reports() - before;
    };
    // Until it has heard of what it wrote it may write that again.
    await expect.poll(reportsInFourLooks).toBe(0);
  });

  test('that lies is put right, and so is the one of a Node made anew under the same name', async () => {
    await startAgent(machines.noGpu);
    await expect.poll(annotation, soon).toContain('"model":"Server"');
    const lie = JSON.stringify({ version: 1, model: 'MacPro6,1', displayDevices: [] });
    await patchMetadata({ annotations: { 'svc3.dev/hardware': lie } });
    await expect.poll(annotation, soon).toContain('"model":"Server"');
    await client.delete(nodes, { name });
    await client.create(nodes, { metadata: { name } });
    await expect.poll(annotation, soon).toContain('"model":"Server"');
  });
});

describe('the device plugin', () => {
  test('advertises one bundle only while the node is enabled, and hands over all of it', async () => {
    await startAgent(machines.towerTwoD500);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual([]);
    await label('enabled');
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    const { envs, devices } = await kubelet.allocate(gpu, ['bundle']);
    expect(envs).toEqual({ SVC3_GPU_PCI_ADDRESSES: towerAddresses });
    expect(
      devices.map(({ hostPath, containerPath, permissions }) => [hostPath, containerPath, permissions]),
    ).toEqual(['vfio', '21', '22'].map((device) => [`/dev/vfio/${device}`, `/dev/vfio/${device}`, 'rw']));
    // A lie that comes with the label: put right by an agent that has heard of both.
    await patchMetadata({ labels: { [gpu]: 'yes' }, annotations: { 'svc3.dev/hardware': '{}' } });
    await expect.poll(annotation, soon).toContain('"model":"MacPro6,1"');
    // Handed over a moment ago: it stays until the kubelet says that nobody has it.
    expect(kubelet.devices(gpu)).toEqual(bundle);
  });

  test('advertises hardware virtualisation with its device, and none where there is none', async () => {
    await startAgent(machines.noGpu);
    await expect.poll(() => kubelet.devices(kvm), soon).toEqual([]);
    await virtualization();
    await expect.poll(() => kubelet.devices(kvm)?.length, soon).toBe(1024);
    expect(await kubelet.allocate(kvm, ['kvm-3'])).toMatchObject({
      devices: [{ containerPath: '/dev/kvm', hostPath: '/dev/kvm', permissions: 'rw' }],
    });
  });

  test('survives restarts of the kubelet', async () => {
    await label('enabled');
    await startAgent(machines.nvidiaWithAudio);
    for (let restarts = 0; restarts < 3; restarts++) {
      await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
      await expect.poll(() => kubelet.devices(kvm), soon).toEqual([]);
      await kubelet.restart();
    }
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    expect(kubelet.registrations.at(-1)).toMatchObject({ version: 'v1beta1' });
  });

  test('takes the bundle back when the host takes a function, and offers it again', async () => {
    await label('enabled');
    await startAgent(machines.nvidiaWithAudio);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    const driver = driverOf('0000:01:00.1');
    await unlink(driver);
    await symlink('../../../drivers/snd_hda_intel', driver);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual([]);
    await unlink(driver);
    await symlink('../../../drivers/vfio-pci', driver);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
  });

  test('goes on advertising the bundle of a VM on a node that was disabled, until the VM is gone', async () => {
    await kubelet.record([gpu]);
    await startAgent(machines.nvidiaWithAudio);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    await kubelet.restart();
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    await kubelet.record([]);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual([]);
  });

  test('says that the bundle of a VM is unhealthy when one of its functions is taken away', async () => {
    await kubelet.record([gpu]);
    await startAgent(machines.nvidiaWithAudio);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    await unlink(driverOf('0000:01:00.0'));
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual([{ ID: 'bundle', health: 'Unhealthy' }]);
  });

  test('refuses what the kubelet takes for free on a node that was disabled', async () => {
    await kubelet.record([gpu]);
    await startAgent(machines.nvidiaWithAudio);
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual(bundle);
    await expect(kubelet.allocate(gpu, ['bundle'])).rejects.toThrow(
      'the node is not enabled for GPU passthrough',
    );
    await expect.poll(() => kubelet.devices(gpu), soon).toEqual([]);
    // The record still shows the pod: it would be believed at the next look.
    await delay(2 * recordMs + hardwareMs);
    expect(kubelet.devices(gpu)).toEqual([]);
  });
});
