import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { run } from '../../src/localcluster/host/command.ts';
import { chartFolder, publishApi } from '../../src/localcluster/cluster/install.ts';
import { type E2eCluster, createVm, e2eCluster, eventually } from '../support/e2e.ts';

const system = 'svc3-system';
let cluster: E2eCluster;
beforeAll(async () => {
  cluster = await e2eCluster();
});

function helm(...parameters: string[]): Promise<string> {
  const target = [`--kubeconfig=${cluster.places.kubeconfig}`, `--namespace=${system}`];
  return run(cluster.tools.path('helm'), [...parameters, ...target]);
}

async function revision(): Promise<string> {
  const [release] = JSON.parse(await helm('list', '-o', 'json')) as { revision: string }[];
  return release?.revision ?? '';
}

async function untilUp(): Promise<void> {
  for (const name of ['deployment/svc3-operator', 'deployment/svc3-api'])
    await cluster.kubectl('rollout', 'status', '-n', system, name, '--timeout=240s');
}

/** Rolled out in full, with this annotation on the operator's pods. */
async function untilRolledOut(mark: string): Promise<void> {
  await untilUp();
  const marks = () =>
    cluster.kubectl(
      'get',
      'deployment',
      '-n',
      system,
      'svc3-operator',
      '-o',
      'jsonpath={.spec.template.metadata.annotations.mark}',
    );
  await expect.poll(marks, eventually).toBe(mark);
}

test('helm test boots a VM', { timeout: 480_000 }, async () => {
  expect(await helm('test', 'svc3', '--logs', '--timeout=5m')).toContain('the VM runs');
});

test(
  'an upgrade of the chart and its rollback leave a running VM as it is',
  { timeout: 2_000_000 },
  async () => {
    const vm = await createVm(cluster, `upgraded-${process.pid}`);
    try {
      await vm.untilReady();
      const boot = () => vm.ssh('cat /proc/sys/kernel/random/boot_id');
      const before = await boot();
      const first = await revision();

      const marked = ['--reuse-values', '--set=operator.podAnnotations.mark=upgraded'];
      await helm('upgrade', 'svc3', chartFolder, ...marked, '--wait=hookOnly');
      await untilRolledOut('upgraded');
      expect(await boot()).toBe(before);

      await helm('rollback', 'svc3', first, '--wait=hookOnly');
      await untilRolledOut('');
      expect(await boot()).toBe(before);
      expect(await vm.get()).toMatchObject({ metadata: { generation: 1 } });
    } finally {
      await vm.delete();
    }
  },
);

/** Of the VM's pod: another one, or a container that was started again, shows. */
async function podOf(name: string): Promise<string> {
  const fields = '{.metadata.uid} {.status.containerStatuses[*].containerID}';
  return cluster.kubectl('get', 'pod', '-n', 'svc3-default', `svc3-vm-${name}`, '-o', `jsonpath=${fields}`);
}

/** Takes svc3 out of the cluster while `meanwhile` runs, and installs it again with the same values. */
async function without(meanwhile: () => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-chart-'));
  try {
    const values = join(folder, 'values.yaml');
    await writeFile(values, await helm('get', 'values', 'svc3', '-o', 'yaml'));
    await helm('uninstall', 'svc3');
    // One that is being deleted takes nothing new in.
    await cluster.kubectl('wait', '--for=delete', 'namespace/svc3-node', '--timeout=120s');
    try {
      await meanwhile();
    } finally {
      await helm('install', 'svc3', chartFolder, `--values=${values}`, '--wait=hookOnly');
      await untilUp();
      const agent = 'daemonset/svc3-node-agent';
      await cluster.kubectl('rollout', 'status', '-n', 'svc3-node', agent, '--timeout=240s');
      await publishApi(cluster);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

test(
  'a VM runs on while svc3 is uninstalled, and is taken up by the next installation as it is',
  { timeout: 2_000_000 },
  async () => {
    const vm = await createVm(cluster, `adopted-${process.pid}`);
    const deleted = await createVm(cluster, `deleted-${process.pid}`);
    try {
      await Promise.all([vm.untilReady(), deleted.untilReady()]);
      const boot = () => vm.ssh('cat /proc/sys/kernel/random/boot_id');
      const [pod, booted] = [await podOf(vm.name), await boot()];

      await without(async () => {
        expect(await cluster.kubectl('get', 'deployments,pods', '-n', system, '-o', 'name')).not.toContain(
          'deployment',
        );
        expect(await cluster.kubectl('get', 'apiservice', 'v1.api.svc3.dev', '--ignore-not-found')).toBe('');
        expect([await podOf(vm.name), await boot()]).toEqual([pod, booted]);
        const host = {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name: 'host', namespace: 'svc3-default' },
          spec: { hostPID: true, containers: [{ name: 'main', image: 'any' }] },
        };
        await expect(cluster.kubectl.apply(host)).rejects.toThrow(/only svc3 itself may use .* hostPID/);
        await cluster.kubectl('delete', 'vms.svc3.dev', '-n', 'svc3-default', deleted.name, '--wait=false');
        expect(await deleted.get()).toMatchObject({
          metadata: { deletionTimestamp: expect.any(String), finalizers: ['svc3.dev/cleanup'] },
        });
      });

      await expect.poll(() => deleted.get(), eventually).toBeUndefined();
      await vm.untilReady();
      expect([await podOf(vm.name), await boot()]).toEqual([pod, booted]);
      expect(await cluster.svc3('vm', 'stop', vm.name)).toMatchObject({ code: 0 });
      expect(await vm.get()).toMatchObject({ status: { powerState: 'Stopped' } });
      expect(await cluster.svc3('vm', 'start', vm.name)).toMatchObject({ code: 0 });
      expect(await boot()).not.toBe(booted);
      expect(await podOf(vm.name)).toBe(pod);
    } finally {
      await vm.delete();
      await deleted.delete();
    }
  },
);
