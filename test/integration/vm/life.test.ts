import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Condition } from '../../../src/kube/types.ts';
import type { Vm, VmSpecInput } from '../../../src/api/vm.ts';
import { events, namespaces, nodes, pods, vms } from '../../../src/api/resources.ts';
import { createClient, type RootClient } from '../../../src/kube/client.ts';
import { loadKubeconfig } from '../../../src/kube/connection.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { type OwnControlPlane, ownControlPlane } from '../../support/controlplane.ts';
import { installDefinitions } from '../../support/definitions.ts';
import { collectVmPods, simulateKubelet, type SimulatedKubelet } from '../../support/kubelet.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { type Write, withFaults } from '../../support/faultclient.ts';

let controlPlane: OwnControlPlane;
let client: RootClient;
let kubelet: SimulatedKubelet;
let operator: TestOperator;
let collector: ReturnType<typeof collectVmPods>;
let writes: Write[];
const namespace = 'life';

beforeAll(async () => {
  controlPlane = await ownControlPlane();
  client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath));
  await installDefinitions(client);
  await client.create(namespaces, { metadata: { name: namespace } });
  kubelet = simulateKubelet(client);
  collector = collectVmPods(client);
  await kubelet.addNode({ name: 'n1' });
  const counted = withFaults(client, () => 'none');
  writes = counted.writes;
  operator = await startVmOperator(counted.client);
}, 120_000);

afterAll(async () => {
  await operator?.stop();
  await kubelet?.stop();
  await collector?.stop();
  await client?.close();
  await controlPlane?.remove();
});

function aVm(name: string, spec: VmSpecInput = {}): Vm {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/debian:12', cpu: 1, memory: '256Mi', ...spec },
  } as Vm;
}

async function conditionOf(name: string, type: string): Promise<Partial<Condition> | undefined> {
  const vm = await client.get(vms, name, namespace);
  return vm.status?.conditions?.find((one) => one.type === type);
}

async function ready(name: string): Promise<void> {
  await expect
    .poll(() => conditionOf(name, 'Ready'), { timeout: 30_000 })
    .toMatchObject({ status: 'True', reason: 'AsWished' });
}

async function gone(name: string): Promise<void> {
  await expect
    .poll(
      async () => {
        const left = await client.list(pods, { namespace });
        return left.items.filter((pod) => pod.metadata.name === `svc3-vm-${name}`).length;
      },
      { timeout: 30_000 },
    )
    .toBe(0);
}

describe('the life of a VM', () => {
  test('from apply to Ready to deleted, in at most five writes with events', async () => {
    const before = writes.length;
    await client.create(vms, aVm('plain'));
    await ready('plain');
    const vm = await client.get(vms, 'plain', namespace);
    expect(vm.status).toMatchObject({
      powerState: 'Running',
      node: 'n1',
      podName: 'svc3-vm-plain',
      ports: { ssh: 8822, screenshare: 5900 },
      effective: { architecture: 'amd64', cpu: 1, memory: '256Mi', gpuPassthrough: 'Disabled' },
      accelerator: 'tcg',
    });
    expect(vm.status?.ip).toMatch(/^192\.0\./);
    expect(vm.status?.conditions?.map(({ type, status }) => `${type}=${status}`).sort()).toEqual([
      'Booted=True',
      'Prepared=True',
      'Ready=True',
      'Scheduled=True',
    ]);
    await expect
      .poll(async () => {
        const list = await client.list(events, { namespace });
        return list.items
          .filter(
            ({ regarding, reportingController }) =>
              regarding?.name === 'plain' && reportingController === 'svc3.dev/operator',
          )
          .map(({ reason }) => reason)
          .sort();
      })
      .toEqual(['Booted', 'Scheduled']);
    await client.delete(vms, { name: 'plain', namespace });
    await gone('plain');
    const made = writes
      .slice(before)
      .map(({ verb, plural, subresource }) => [verb, plural, subresource].join(' ').trim());
    expect(made.sort()).toEqual([
      'apply vms status',
      'apply vms status',
      'create events',
      'create events',
      'create pods',
    ]);
  });

  test('a VM that fits nowhere says why and starts by itself when a node comes', async () => {
    await client.create(vms, aVm('waits', { tag: 'ci', tagRequired: true }));
    await expect
      .poll(() => conditionOf('waits', 'Scheduled'), { timeout: 15_000 })
      .toMatchObject({
        status: 'False',
        reason: 'Unschedulable',
        message: "0/1 nodes are available: 1 node(s) didn't have tag ci.",
      });
    await client.patch(
      nodes,
      { name: 'n1' },
      { type: 'merge', body: { metadata: { labels: { 'tag.svc3.dev/ci': 'true' } } } },
    );
    await ready('waits');
    await client.delete(vms, { name: 'waits', namespace });
    await gone('waits');
  });

  test('a deleted VM can be made again at once under the same name', async () => {
    await client.create(vms, aVm('again'));
    await ready('again');
    await client.delete(vms, { name: 'again', namespace });
    await client.create(vms, aVm('again'));
    await ready('again');
    await client.delete(vms, { name: 'again', namespace });
    await gone('again');
  });

  test('a pod that somebody deletes comes back', async () => {
    await client.create(vms, aVm('resilient'));
    await ready('resilient');
    const pod = await client.get(pods, 'svc3-vm-resilient', namespace);
    await client.delete(pods, { name: 'svc3-vm-resilient', namespace });
    await expect
      .poll(
        async () => {
          try {
            return (await client.get(pods, 'svc3-vm-resilient', namespace)).metadata.uid;
          } catch (error) {
            return isSvc3Error(error, 'NotFound') ? pod.metadata.uid : 'error';
          }
        },
        { timeout: 30_000 },
      )
      .not.toBe(pod.metadata.uid);
    await ready('resilient');
    await client.delete(vms, { name: 'resilient', namespace });
    await gone('resilient');
  });
});
