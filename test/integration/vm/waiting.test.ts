import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { configMaps, namespaces, nodes, pods, vms } from '../../../src/api/resources.ts';
import { namespaces as ours, objectNames } from '../../../src/api/meta.ts';
import { withFaults, type Write } from '../../support/faultclient.ts';
import { type FaultProxy, isList, startFaultProxy } from '../../support/faultproxy.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { inProcess } from '../cli/inprocess.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let writes: Write[];
/** Between the command line and kube-apiserver: tells what it has asked for. */
let proxy: FaultProxy;
const { svc3, home } = inProcess();
const kubeconfig = join(home, 'kubeconfig.json');
const label = 'svc3.dev/gpu-passthrough';

beforeAll(async () => {
  world = await vmWorld();
  proxy = await startFaultProxy(world.controlPlane);
  await writeKubeconfig(world.controlPlane.adminToken);
  space = await world.namespace('waiting');
  await world.kubelet.addNode({ name: 'n1' });
  // What the chart writes, for `svc3 vm explain`.
  await world.client.create(namespaces, { metadata: { name: ours.system } });
  await world.client.create(configMaps, {
    metadata: { name: objectNames.settings, namespace: ours.system },
    data: {
      SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:test',
      SVC3_GPU_PASSTHROUGH_ENABLED: 'true',
    },
  });
  const counted = withFaults(world.client, () => 'none');
  writes = counted.writes;
  operator = await startVmOperator(counted.client, { gpuPassthroughEnabled: true, portRanges: {} });
});

afterAll(async () => {
  await operator?.stop();
  await proxy?.close();
  await world?.stop();
});

const says = (name: string, message: string) =>
  space.until(name, 'Scheduled', { status: 'False', reason: 'Unschedulable', message });
const setLabel = (node: string, value: string | null) =>
  world.client.patch(
    nodes,
    { name: node },
    { type: 'merge', body: { metadata: { labels: { [label]: value } } } },
  );
/** The command line as a cluster administrator has it. */
const run = (...words: string[]) =>
  svc3(words, { env: { KUBECONFIG: kubeconfig, SVC3_DEFAULT_NAMESPACE: space.name } });

async function writeKubeconfig(token: string): Promise<void> {
  const { server, caPem } = proxy;
  const cluster = { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') };
  const content = {
    clusters: [{ name: 'proxy', cluster }],
    users: [{ name: 'me', user: { token } }],
    contexts: [{ name: 'proxy', context: { cluster: 'proxy', user: 'me' } }],
    'current-context': 'proxy',
  };
  await writeFile(kubeconfig, JSON.stringify(content));
}

describe('the sentence of a VM that waits', { timeout: 180_000 }, () => {
  test('is true again when its cause has changed, and is not written again while it is', async () => {
    await space.deploy('waits', { gpuPassthrough: 'Enabled' });
    await says('waits', '0/1 nodes are available: 1 not enabled for GPU passthrough.');
    await setLabel('n1', 'enabled');
    await says('waits', '0/1 nodes are available: 1 GPU passthrough device not ready.');
    await world.kubelet.addNode({ name: 'n2' });
    const both =
      '0/2 nodes are available: 1 GPU passthrough device not ready, 1 not enabled for GPU passthrough.';
    await says('waits', both);
    const written = () => writes.filter(({ name, plural }) => name === 'waits' && plural === 'vms').length;
    const before = written();
    for (let i = 0; i < 5; i++)
      await world.client.patch(
        nodes,
        { name: 'n2' },
        { type: 'merge', body: { metadata: { annotations: { other: String(i) } } } },
      );
    await world.kubelet.removeNode('n2');
    await says('waits', '0/1 nodes are available: 1 GPU passthrough device not ready.');
    // Each true sentence was written once: what came in between changed none.
    expect(written() - before).toBe(1);
    await space.remove('waits');
    await setLabel('n1', null);
  });

  test('is the same in the condition, for who deploys, and in the verdicts of svc3 vm explain', async () => {
    const sentence = '0/1 nodes are available: 1 not enabled for GPU passthrough.';
    const deployed = run('vm', 'deploy', 'asks', '-i', 'registry.example.com/debian:12', '-c', '1', '--gpu');
    await expect
      .poll(() => space.condition('asks', 'Scheduled').catch(() => ({})), slow)
      .toMatchObject({ message: sentence });
    const page = await run('vm', 'explain', 'asks');
    expect(page.code).toBe(0);
    expect(page.stdout.split('\n')[0]).toBe(`vm asks is Pending: ${sentence}`);
    expect(page.stdout).toMatch(/^n1 +no +\d+% +not enabled for GPU passthrough$/m);
    const { startDeadlineSeconds } = (await space.vm('asks')).spec;
    expect(startDeadlineSeconds).toBe(600);
    // The deadline comes early: the operator deletes the VM, and whoever waits is told why. The finalizer lets them see it
    // go.
    const asks = { name: 'asks', namespace: space.name };
    const finalizers = ['test.svc3.dev/slow'];
    await world.client.patch(vms, asks, {
      type: 'merge',
      body: { metadata: { finalizers }, spec: { startDeadlineSeconds: 1 } },
    });
    await expect.poll(async () => (await space.vm('asks')).metadata.deletionTimestamp, slow).toBeDefined();
    const looks = () => proxy.seen.filter((seen) => isList(seen) && seen.path.endsWith('/vms/asks')).length;
    const before = looks();
    // The first of two that come after another has been answered.
    await expect.poll(looks, slow).toBeGreaterThanOrEqual(before + 2);
    await world.client.patch(vms, asks, { type: 'merge', body: { metadata: { finalizers: null } } });
    const { code, stderr } = await deployed;
    expect(code).not.toBe(0);
    expect(stderr).toContain(`VM asks did not run within its timeout and was removed: ${sentence}`);
  });
});

test('what is asked for of a pod as a whole is taken from its node', async () => {
  await world.kubelet.addNode({ name: 'small', labels: { 'tag.svc3.dev/small': 'true' } });
  const containers = [{ name: 'a', image: 'b', resources: { requests: { cpu: '10m' } } }];
  const other = { name: 'whole', namespace: space.name };
  await world.client.create(pods, {
    metadata: other,
    spec: {
      containers,
      nodeSelector: { 'tag.svc3.dev/small': 'true' },
      resources: { requests: { cpu: '7500m' } },
    },
  });
  await expect
    .poll(async () => (await world.client.get(pods, 'whole', space.name)).spec.nodeName, slow)
    .toBe('small');
  await space.deploy('beside', { tag: 'small', tagRequired: true });
  await says('beside', "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't have tag small.");
  await world.client.delete(pods, other);
  await space.untilReady('beside');
  await space.remove('beside');
  await world.kubelet.removeNode('small');
});
