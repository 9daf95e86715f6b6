/** Device plugin and real kubelet: the agent of this checkout on one node, with cards and devices that are files. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { conditionOf, createVm, type E2eCluster, e2eCluster, eventually } from '../support/e2e.ts';
import { machines, writeMachine } from '../support/machines.ts';

const execute = promisify(execFile);
const program = join(import.meta.dirname, '../../src/bin/node-agent.ts');
const node = 'node2';
const namespace = 'svc3-default';
const gpu = 'svc3.dev/gpu-passthrough';
/** A group that nothing else has. */
const deviceGroup = 4242;

let cluster: E2eCluster;
let root: string;
let agent: ChildProcess | undefined;

beforeAll(async () => {
  cluster = await e2eCluster();
  root = join(cluster.places.state, 'machine');
  await rm(root, { recursive: true, force: true });
  await writeMachine(root, machines.towerTwoD500);
  await makeDevices();
  await keepDaemonAway(true);
  const { kubeconfig, state } = cluster.places;
  agent = spawn(process.execPath, [program], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'] ?? '',
      KUBECONFIG: kubeconfig,
      NODE_NAME: node,
      SVC3_HEALTH_PORT: '0',
      SVC3_HEALTH_HOST: '127.0.0.1',
      SVC3_SYSFS: join(root, 'sys'),
      SVC3_DEV: join(root, 'dev'),
      SVC3_PROC: join(root, 'proc'),
      SVC3_HOST_DEV: join(root, 'dev'),
      SVC3_GPU_TOWER_CARDS: '1002:679e',
      SVC3_DEVICE_PLUGIN_DIRECTORY: join(state, 'nodes', node, 'kubelet/device-plugins'),
    },
  });
});

afterAll(async () => {
  try {
    await cluster.kubectl('delete', 'pods', '-n', namespace, '-l', 'test=devices', '--now');
    await cluster.svc3('node', 'gpu', 'disable', node);
  } finally {
    if (agent !== undefined && agent.exitCode === null) {
      agent.kill('SIGTERM');
      await once(agent, 'exit');
    }
    await keepDaemonAway(false);
    await rm(root, { recursive: true, force: true });
  }
});

/** Character devices that read and write nothing, with the names, modes and owners that matter. */
async function makeDevices(): Promise<void> {
  await mkdir(join(root, 'dev/vfio'), { recursive: true });
  await mkdir(join(root, 'proc'));
  await writeFile(join(root, 'proc/cpuinfo'), 'flags\t: fpu svm\n');
  for (const name of ['kvm', 'vfio/vfio', 'vfio/21', 'vfio/22']) {
    const path = join(root, 'dev', name);
    await execute('mknod', [path, 'c', '1', '3']);
    await chown(path, 0, deviceGroup);
    await chmod(path, 0o660);
  }
}

/** Two agents on one node would take the kubelet from each other. */
async function keepDaemonAway(away: boolean): Promise<void> {
  const terms = [
    { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'NotIn', values: [node] }] },
  ];
  const nodeAffinity = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } };
  const patch = { spec: { template: { spec: { affinity: away ? { nodeAffinity } : null } } } };
  const daemon = ['-n', 'svc3-node', 'daemonset/svc3-node-agent'];
  await cluster.kubectl('patch', ...daemon, '--type=merge', '-p', JSON.stringify(patch));
  await cluster.kubectl('rollout', 'status', ...daemon, '--timeout=180s');
  if (!away) return;
  // The rollout does not wait for a pod that ends.
  const its = ['-l', 'app.kubernetes.io/component=node-agent', `--field-selector=spec.nodeName=${node}`];
  await cluster.kubectl('wait', '-n', 'svc3-node', 'pod', ...its, '--for=delete', '--timeout=180s');
}

interface PodOptions {
  readonly resource: string;
  readonly groups?: readonly number[];
  readonly script: string;
}

/** A pod that is bound to the node beforehand: kube-scheduler is not asked. */
async function runPod(name: string, { resource, groups = [], script }: PodOptions): Promise<void> {
  const image = await cluster.kubectl(
    'get',
    'daemonset',
    '-n',
    'svc3-node',
    'svc3-node-agent',
    '-o',
    'jsonpath={.spec.template.spec.containers[0].image}',
  );
  await cluster.asOperator.apply({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { test: 'devices' } },
    spec: {
      nodeName: node,
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 0,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 107,
        runAsGroup: 107,
        supplementalGroups: groups,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'main',
          image,
          imagePullPolicy: 'IfNotPresent',
          command: ['node', '-e', script],
          resources: { limits: { [resource]: '1' } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  });
}

const show = (kind: string, name: string, path: string): Promise<string> =>
  cluster.kubectl('get', kind, '-n', namespace, name, '--ignore-not-found', '-o', `jsonpath=${path}`);
const phase = (name: string) => show('pod', name, '{.status.phase}');
const logs = (name: string) => cluster.kubectl('logs', '-n', namespace, name);
const allocatable = (resource: string) =>
  show('node', node, `{.status.allocatable.${resource.replaceAll('.', '\\.')}}`);

const gpuCondition = () =>
  show('node', node, '{.status.conditions[?(@.type=="svc3.dev/GPUUnavailable")].message}');

describe('a node with two cards and hardware virtualisation', () => {
  test('is labelled once the administrator enables it, and the kubelet then has one bundle', async () => {
    const why = async () => (await cluster.svc3('node', 'list', '-o', 'wide')).stdout;
    await expect.poll(why, eventually).toContain(`svc3 node gpu enable ${node}`);
    expect((await cluster.svc3('node', 'gpu', 'enable', node)).code).toBe(0);
    await expect
      .poll(() => show('node', node, '{.metadata.labels.svc3\\.dev/gpu-passthrough}'), eventually)
      .toBe('enabled');
    await expect.poll(() => allocatable(gpu), eventually).toBe('1');
    await expect.poll(() => allocatable('svc3.dev/kvm'), eventually).toBe('1024');
  });

  test('gives the bundle to one pod, and the kubelet refuses the second (spec: Limits)', async () => {
    const script = 'console.log(process.env.SVC3_GPU_PCI_ADDRESSES); setInterval(() => {}, 1e6)';
    await runPod('first', { resource: gpu, script });
    await expect.poll(() => phase('first'), eventually).toBe('Running');
    await expect
      .poll(() => logs('first'), eventually)
      .toContain('0000:02:00.0,0000:06:00.0,0000:02:00.1,0000:06:00.1');
    await runPod('second', { resource: gpu, script });
    await expect.poll(() => phase('second'), eventually).toBe('Failed');
    expect(await show('pod', 'second', '{.status.reason}')).toBe('UnexpectedAdmissionError');
    await cluster.kubectl('delete', 'pod', '-n', namespace, 'first', 'second', '--now', '--wait');
    await runPod('third', { resource: gpu, script });
    await expect.poll(() => phase('third'), eventually).toBe('Running');
  });

  test('says on VM and Node that the GPUs cannot be used, in one container that tries again', async () => {
    await cluster.kubectl('delete', 'pods', '-n', namespace, '-l', 'test=devices', '--now', '--wait');
    // The machine's /dev/kvm is a file, and its cards are no cards: real QEMU says so of the cards.
    await cluster.kubectl('label', 'node', node, 'svc3.dev/accelerator=tcg', '--overwrite');
    const vm = await createVm(cluster, 'gamer', { gpuPassthrough: 'Enabled' });
    try {
      const booted = async () => conditionOf(await vm.get(), 'Booted');
      await expect.poll(booted, eventually).toMatchObject({
        status: 'False',
        reason: 'GPUUnavailable',
        message: expect.stringContaining('a GPU cannot be handed to the guest: ') as string,
      });
      await expect
        .poll(gpuCondition, eventually)
        .toContain('VM svc3-default/gamer cannot use the GPUs: a GPU cannot be handed to the guest: ');
      await expect
        .poll(async () => (await cluster.svc3('node', 'list', '-o', 'wide')).stdout, eventually)
        .toContain('not usable now: ');
      const pod = (await vm.get())?.status?.podName ?? '';
      expect(await show('pod', pod, '{.status.containerStatuses[0].restartCount}')).toBe('0');
    } finally {
      await vm.delete();
      await cluster.kubectl('label', 'node', node, 'svc3.dev/accelerator-');
    }
    await expect.poll(gpuCondition, eventually).toBe('');
  });

  test('lets a pod without privileges open a device of mode 0660 by its group, and only by it', async () => {
    const script = "require('node:fs').openSync('/dev/kvm', 'r+'); console.log('opened')";
    await runPod('member', { resource: 'svc3.dev/kvm', groups: [deviceGroup], script });
    await runPod('outsider', { resource: 'svc3.dev/kvm', script });
    await expect.poll(() => phase('member'), eventually).toBe('Succeeded');
    await expect.poll(() => phase('outsider'), eventually).toBe('Failed');
    expect(await logs('member')).toContain('opened');
    expect(await logs('outsider')).toContain('EACCES');
  });
});
