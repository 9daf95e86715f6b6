import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { persistentVolumeClaims, pods, secrets, vmPools, vms } from '../../../src/api/resources.ts';
import type { VmPool } from '../../../src/api/vmpool.ts';
import { storageClasses } from '../../support/resources.ts';
import { bindClaim } from '../../support/claims.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { RunnerStandIn } from '../../support/runnerstandin.ts';
import { inProcess } from '../cli/inprocess.ts';
import { slow, type VmWorld, vmWorld } from './harness.ts';
import { template } from './poolworld.ts';

const { svc3 } = inProcess();

let world: VmWorld;

beforeAll(async () => {
  world = await vmWorld();
  for (const name of ['n1', 'n2']) await world.kubelet.addNode({ name });
  await world.client.create(storageClasses, {
    metadata: { name: 'fast' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'WaitForFirstConsumer',
    allowVolumeExpansion: true,
  });
  await world.client.create(storageClasses, {
    metadata: { name: 'manual' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'Immediate',
    allowVolumeExpansion: true,
  });
  await world.client.create(storageClasses, {
    metadata: { name: 'fixed' },
    provisioner: 'example.com/none',
    volumeBindingMode: 'Immediate',
  });
});

afterAll(async () => {
  await world?.stop();
});

async function withOperator(
  settings: Parameters<typeof startVmOperator>[1],
  run: () => Promise<void>,
): Promise<void> {
  const operator: TestOperator = await startVmOperator(world.client, settings);
  try {
    await run();
  } finally {
    await operator.stop();
  }
}

describe('a Persistent disk', () => {
  test('is a claim of the VM, which its pod mounts', async () => {
    const space = await world.namespace('persistent');
    await withOperator({ storageClassName: 'fast' }, async () => {
      await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi' } });
      const claim = () => world.client.get(persistentVolumeClaims, 'svc3-vm-vm', space.name);
      await expect
        .poll(
          () =>
            claim().then(
              ({ spec }) => spec,
              () => undefined,
            ),
          slow,
        )
        .toMatchObject({
          storageClassName: 'fast',
          resources: { requests: { storage: '1127Mi' } },
        });
      expect((await claim()).metadata).toMatchObject({
        annotations: { 'svc3.dev/vm-uid': (await space.vm('vm')).metadata.uid },
      });
      const volume = async () => (await space.pod('vm'))?.spec.volumes?.find(({ name }) => name === 'state');
      await expect
        .poll(volume, slow)
        .toEqual({ name: 'state', persistentVolumeClaim: { claimName: 'svc3-vm-vm' } });
      await space.remove('vm');
    });
  });

  test('waits for its volume with a reason, and grows once it has one, and that has grown', async () => {
    const space = await world.namespace('growing');
    const runner = new RunnerStandIn(() => world.kubelet);
    runner.become({ powerState: 'Running', diskSize: 2 ** 30 });
    const operator = await startVmOperator(world.client, { storageClassName: 'manual' }, runner.parts);
    try {
      await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi' } });
      await space.until('vm', 'Scheduled', {
        status: 'False',
        reason: 'Unschedulable',
        message: expect.stringContaining('unbound immediate PersistentVolumeClaims'),
      });
      await bindClaim(world.client, space.name, 'svc3-vm-vm');
      await space.untilReady('vm');
      const larger = { spec: { disk: { size: '2Gi' } } };
      await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: larger });
      await expect
        .poll(async () => {
          const { spec } = await world.client.get(persistentVolumeClaims, 'svc3-vm-vm', space.name);
          return spec?.resources?.requests?.['storage'];
        }, slow)
        .toBe('2253Mi');
      const key = { name: 'svc3-vm-vm', namespace: space.name };
      const tell = (status: object) =>
        world.client.patch(
          persistentVolumeClaims,
          key,
          { type: 'merge', body: { status } },
          { subresource: 'status' },
        );
      // What external-resizer and the kubelet say one after the other.
      const message = 'the volume is in use';
      await tell({ conditions: [{ type: 'ControllerResizeError', status: 'True', message }] });
      await expect
        .poll(async () => (await space.vm('vm')).status?.diskGrowth, slow)
        .toBe(
          'the volume of claim svc3-vm-vm has 1127Mi, of 2253Mi that are asked for: ControllerResizeError: the volume is in use',
        );
      expect(runner.verbs).toEqual([]);
      await tell({ capacity: { storage: '2253Mi' }, conditions: null });
      const touched = { metadata: { labels: { touched: 'true' } } };
      await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: touched });
      await expect.poll(() => runner.verbs, slow).toEqual([`resize ${2 ** 31}`]);
      await expect
        .poll(async () => (await space.vm('vm')).status?.diskGrowth, slow)
        .toBe('the disk has grown');
      await space.remove('vm');
    } finally {
      await operator.stop();
    }
  });

  test('does not grow beyond a volume that cannot, and says why', async () => {
    const space = await world.namespace('fixed');
    const runner = new RunnerStandIn(() => world.kubelet);
    runner.become({ powerState: 'Running', diskSize: 2 ** 30 });
    const operator = await startVmOperator(world.client, { storageClassName: 'fixed' }, runner.parts);
    onTestFinished(() => operator.stop());
    await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi' } });
    await space.until('vm', 'Scheduled', { status: 'False' });
    await bindClaim(world.client, space.name, 'svc3-vm-vm');
    await space.untilReady('vm');
    const env = { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name };
    for (const _ of ['once', 'asked for again']) {
      const { code, stderr } = await svc3(['vm', 'resize', 'vm', '2'], { env });
      expect(stderr).toMatch(/VM vm: the disk has not grown: .*svc3-vm-vm.* is forbidden/);
      expect(code).not.toBe(0);
    }
    expect((await space.vm('vm')).status?.diskGrowth).toMatch(/is forbidden/);
    expect(runner.verbs).toEqual([]);
    await space.remove('vm');
  });
});

describe('a data disk that is to be larger than its class lets claims grow', () => {
  test('ends no guest, is told before the next start, and goes back', async () => {
    const space = await world.namespace('fixed-data');
    const runner = new RunnerStandIn(() => world.kubelet);
    runner.become({ powerState: 'Running' });
    const operator = await startVmOperator(world.client, { storageClassName: 'fixed' }, runner.parts);
    onTestFinished(() => operator.stop());
    const logs = { name: 'logs', size: '1Gi' };
    const change = (spec: object) =>
      world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body: { spec } });
    const restartRequired = () => space.condition('vm', 'RestartRequired');
    await space.deploy('vm', { disk: { storage: 'Persistent', size: '1Gi' }, disks: [logs] });
    await space.until('vm', 'Scheduled', { status: 'False' });
    for (const name of ['svc3-vm-vm', 'svc3-vm-vm.logs']) await bindClaim(world.client, space.name, name);
    await space.untilReady('vm');
    const pod = await space.pod('vm');

    const told = /disks.*is forbidden.*; for the size of before take disks\[logs\] out of spec.disks/s;
    await change({ disks: [{ ...logs, size: '2Gi' }] });
    await expect
      .poll(restartRequired, slow)
      .toMatchObject({ reason: 'ResizeRefused', message: expect.stringMatching(told) });
    await space.untilReady('vm');
    await change({ disks: [] });
    await change({ disks: [logs] });
    await expect.poll(restartRequired, slow).toEqual({});

    await change({ disks: [{ ...logs, size: '3Gi' }], restartRequest: 'now' });
    await space.until('vm', 'Ready', {
      reason: 'Restarting',
      message: expect.stringMatching(/is forbidden.*take disks\[logs\]/s),
    });
    expect((await space.pod('vm'))?.metadata.uid).toBe(pod?.metadata.uid);
    expect(runner.verbs).toEqual([]);
    await space.remove('vm');
  });
});

describe('whenFull: Pod', () => {
  test('leaves an unpinned pod to kube-scheduler, so that an autoscaler sees it', async () => {
    const space = await world.namespace('overflow');
    await withOperator({ whenFull: 'Pod' }, async () => {
      await space.deploy('vm', { tag: 'big', tagRequired: true });
      await space.until('vm', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
      await expect
        .poll(async () => (await space.condition('vm', 'Scheduled')).message, slow)
        .toMatch(/^0\/2 nodes are available: 2 node\(s\) didn't match Pod's node affinity/);
      const uid = (await space.pod('vm'))?.metadata.uid;
      await world.kubelet.addNode({ name: 'n3', labels: { 'tag.svc3.dev/big': 'true' } });
      await space.untilReady('vm');
      expect((await space.pod('vm'))?.metadata.uid).toBe(uid);
      expect((await space.vm('vm')).status).toMatchObject({ node: 'n3', ports: { ssh: 0 } });
      await space.remove('vm');
    });
  });
});

describe('whenFull: Pod where nodes have hardware virtualisation', () => {
  test('asks for /dev/kvm and its group, and waits for a node that has it', async () => {
    const space = await world.namespace('overflowkvm');
    const annotations = { 'svc3.dev/hardware': JSON.stringify({ version: 1, kvm: { gid: 104 } }) };
    const tag = { 'tag.svc3.dev/virt': 'true' };
    const full = { cpu: '0', 'svc3.dev/kvm': '110' };
    await world.kubelet.addNode({ name: 'kvm1', annotations, labels: tag, allocatable: full });
    await withOperator({ whenFull: 'Pod' }, async () => {
      await space.deploy('vm', { tag: 'virt', tagRequired: true });
      await space.until('vm', 'Scheduled', { status: 'False', reason: 'Unschedulable' });
      const spec = (await space.pod('vm'))?.spec;
      expect(spec?.containers[0]?.resources?.limits).toMatchObject({ 'svc3.dev/kvm': '1' });
      expect(spec?.securityContext?.supplementalGroups).toEqual([104]);
      // Neither one without the device nor one that is labelled to emulate.
      await world.kubelet.addNode({ name: 'plain', labels: tag });
      const emulating = { ...tag, 'svc3.dev/accelerator': 'tcg' };
      await world.kubelet.addNode({
        name: 'labelled',
        labels: emulating,
        allocatable: { 'svc3.dev/kvm': '110' },
      });
      await expect
        .poll(async () => (await space.condition('vm', 'Scheduled')).message, slow)
        .toMatch(/^0\/6 nodes are available: .*1 Insufficient svc3.dev\/kvm/);
      await world.kubelet.addNode({ name: 'kvm2', labels: tag, allocatable: { 'svc3.dev/kvm': '110' } });
      await space.untilReady('vm');
      expect((await space.vm('vm')).status).toMatchObject({ node: 'kvm2', accelerator: 'kvm' });
      await space.remove('vm');
      for (const name of ['kvm1', 'plain', 'labelled', 'kvm2']) await world.kubelet.removeNode(name);
    });
  });
});

describe('the pull Secret', () => {
  test('a pod that cannot pull is made anew when the Secret comes, and names it', async () => {
    const space = await world.namespace('pulling');
    const withSecret = { kind: 'run' as const };
    const without = {
      kind: 'waiting' as const,
      reason: 'ErrImagePull',
      message: 'no basic auth credentials',
    };
    world.kubelet.behave((pod) => (pod.spec.imagePullSecrets === undefined ? without : withSecret));
    await withOperator({}, async () => {
      await space.deploy('vm');
      await space.until('vm', 'Prepared', {
        reason: 'ImagePullFailed',
        message: 'no basic auth credentials',
      });
      await world.client.create(secrets, {
        metadata: { name: 'svc3-registry-credentials', namespace: space.name },
        type: 'kubernetes.io/dockerconfigjson',
        stringData: { '.dockerconfigjson': '{"auths":{}}' },
      });
      await space.untilReady('vm');
      expect((await space.pod('vm'))?.spec.imagePullSecrets).toEqual([{ name: 'svc3-registry-credentials' }]);
      const uid = (await space.pod('vm'))?.metadata.uid;
      const body = { metadata: { labels: { touched: 'true' } } };
      const key = { name: 'svc3-registry-credentials', namespace: space.name };
      await world.client.patch(secrets, key, { type: 'merge', body });
      await world.client.patch(vms, { name: 'vm', namespace: space.name }, { type: 'merge', body });
      await space.deploy('after');
      await space.untilReady('after');
      expect((await space.pod('vm'))?.metadata.uid).toBe(uid);
      for (const name of ['vm', 'after']) await space.remove(name);
    });
    world.kubelet.behave(() => ({ kind: 'run' }));
    expect((await world.client.list(pods, { namespace: space.name })).items).toEqual([]);
  });

  test('so are guests of a pool, which says meanwhile why none waits', async () => {
    const space = await world.namespace('pulling-pool');
    const message = 'no basic auth credentials';
    world.kubelet.behave((pod) =>
      pod.spec.imagePullSecrets === undefined
        ? { kind: 'waiting', reason: 'ErrImagePull', message }
        : { kind: 'run' },
    );
    await withOperator({}, async () => {
      await world.client.create(vmPools, {
        apiVersion: 'svc3.dev/v1',
        kind: 'VMPool',
        metadata: { name: 'ci', namespace: space.name },
        spec: { template, minIdle: 2 } as VmPool['spec'],
      });
      const status = async () => (await world.client.get(vmPools, 'ci', space.name)).status;
      const ready = async () => (await status())?.conditions?.find(({ type }) => type === 'Ready')?.message;
      await expect.poll(ready, slow).toBe(`2 being prepared, 0 to come; ${message}`);
      await world.client.create(secrets, {
        metadata: { name: 'svc3-registry-credentials', namespace: space.name },
        type: 'kubernetes.io/dockerconfigjson',
        stringData: { '.dockerconfigjson': '{"auths":{}}' },
      });
      await expect.poll(async () => (await status())?.idle, slow).toBe(2);
      await world.client.delete(vmPools, { name: 'ci', namespace: space.name });
    });
    world.kubelet.behave(() => ({ kind: 'run' }));
  });
});
