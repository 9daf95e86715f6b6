import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { nodes } from '../../../src/api/resources.ts';
import { messageOf } from '../../../src/errors.ts';
import { ownControlPlane } from '../../support/controlplane.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let operator: TestOperator;
let space: VmNamespace;

const lost = ['n1', 'n2', 'n3'];

/** As in a cluster, but with seconds where that takes minutes. */
beforeAll(async () => {
  world = await vmWorld({
    controlPlane: await ownControlPlane({
      controllerManagerFlags: [
        '--node-monitor-period=500ms',
        '--node-monitor-grace-period=8s',
        '--node-eviction-rate=10',
        // Where most nodes of a zone are silent, it thinks that it is itself cut off and evicts nothing.
        '--unhealthy-zone-threshold=0.9',
      ],
      apiServerFlags: ['--default-unreachable-toleration-seconds=3'],
    }),
    heartbeatMs: 1_000,
  });
  for (const name of [...lost, 'n4']) await world.kubelet.addNode({ name });
  operator = await startVmOperator(world.client);
  space = await world.namespace('lost');
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

/** VMs by name, with the pods that they have when their nodes fall silent. */
const vms = new Map<string, Pod>();

async function deploy(vm: string, node: string, spec: object = {}): Promise<void> {
  await space.deploy(vm, { tag: node, ...spec });
  await space.untilReady(vm);
  const pod = await space.pod(vm);
  expect(pod?.spec.nodeName).toBe(node);
  vms.set(vm, pod as Pod);
}

const uidOf = async (vm: string) => (await space.pod(vm))?.metadata.uid;

describe('VMs on nodes that fall silent', { timeout: 240_000 }, () => {
  test('are not known to run, and where they are stays in their status', async () => {
    for (const name of [...lost, 'n4']) {
      const labels = { [`tag.svc3.dev/${name}`]: 'true' };
      await world.client.patch(nodes, { name }, { type: 'merge', body: { metadata: { labels } } });
    }
    await deploy('tolerant', 'n1', {
      tolerations: [{ key: 'node.kubernetes.io/unreachable', operator: 'Exists' }],
    });
    await deploy('back', 'n2');
    await deploy('off', 'n3');
    await deploy('deleted', 'n2');
    for (const name of lost) world.kubelet.loseNode(name);
    for (const vm of ['tolerant', 'back', 'off'])
      await space.until(vm, 'Ready', { status: 'Unknown', reason: 'NodeLost' });
    expect(await space.condition('tolerant', 'Ready')).toMatchObject({ message: 'node n1 does not answer' });
    expect((await space.vm('tolerant')).status).toMatchObject({ node: 'n1', podName: 'svc3-vm-tolerant' });
    await expect.poll(() => space.events('tolerant'), slow).toContain('NodeLost');
  });

  test('get no second pod while their first, which the taint of the node evicts, may still run', async () => {
    for (const vm of ['back', 'off']) {
      const node = vms.get(vm)?.spec.nodeName ?? '';
      await space.until(vm, 'Ready', {
        status: 'Unknown',
        reason: 'NodeLost',
        message: `node ${node} does not answer; the VM is placed anew once its pod is gone: bring the node back, or say that it is off for good (taint node.kubernetes.io/out-of-service)`,
      });
      expect((await space.pod(vm))?.metadata).toMatchObject({
        uid: vms.get(vm)?.metadata.uid,
        deletionTimestamp: expect.any(String),
      });
      expect((await space.vm(vm)).status).toMatchObject({ node, podName: `svc3-vm-${vm}` });
    }
  });

  test('are gone as soon as they are deleted, and their pods stay', async () => {
    await space.delete('deleted');
    await expect.poll(() => space.vm('deleted').catch(messageOf), slow).toMatch(/not found/);
    expect(await uidOf('deleted')).toBe(vms.get('deleted')?.metadata.uid);
  });

  test('are placed anew when their node is said to be off for good', async () => {
    const { spec } = await world.client.get(nodes, 'n3');
    const taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
    const taints = [...(spec?.taints ?? []), taint];
    await world.client.patch(nodes, { name: 'n3' }, { type: 'merge', body: { spec: { taints } } });
    await space.untilReplaced('off', vms.get('off'));
    await space.untilReady('off');
    expect((await space.vm('off')).status?.node).toBe('n4');
    await expect.poll(() => space.events('off'), slow).toContain('DiskReset');
    expect(await uidOf('back')).toBe(vms.get('back')?.metadata.uid);
  });

  test('are placed anew when their node is back and has ended the pod; one that tolerates the silence runs on', async () => {
    for (const name of ['n1', 'n2']) await world.kubelet.returnNode(name);
    await space.untilReplaced('back', vms.get('back'));
    for (const vm of ['tolerant', 'back']) await space.untilReady(vm);
    expect(await uidOf('tolerant')).toBe(vms.get('tolerant')?.metadata.uid);
    expect(await space.events('tolerant')).not.toContain('DiskReset');
  });

  // A simulated node that stayed lost once let every test of a file fail: the node lifecycle controller goes by what it remembers of a name.
  test('run on where a kubelet that is called lost is heard of', async () => {
    const conditions = [{ type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown', message: '' }];
    await world.client.patch(
      nodes,
      { name: 'n4' },
      { type: 'merge', body: { status: { conditions } } },
      { subresource: 'status' },
    );
    const ready = async () =>
      (await world.client.get(nodes, 'n4')).status?.conditions?.find(({ type }) => type === 'Ready')?.status;
    await expect.poll(ready, slow).toBe('True');
    await space.untilReady('off');
  });
});
