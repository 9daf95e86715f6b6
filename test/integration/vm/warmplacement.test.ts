import { afterAll, beforeAll, expect, test } from 'vitest';
import { configMaps, images, namespaces } from '../../../src/api/resources.ts';
import { namespaces as ours, objectNames } from '../../../src/api/meta.ts';
import { nodeOf } from '../../../src/placement/podfacts.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { inProcess } from '../cli/inprocess.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
const { svc3 } = inProcess();

const digest = `sha256:${'a'.repeat(64)}`;
const hardware = (model: string) => ({
  'svc3.dev/hardware': JSON.stringify({ version: 1, cpu: { model, flags: ['avx', 'sse'] } }),
});

beforeAll(async () => {
  world = await vmWorld();
  const kvm = { 'svc3.dev/kvm': '110' };
  // By what is free the last one would be taken as long as nothing runs there.
  await world.kubelet.addNode({ name: 'new', annotations: hardware('New CPU'), allocatable: kvm });
  await world.kubelet.addNode({ name: 'old', annotations: hardware('Old CPU'), allocatable: kvm });
  await world.kubelet.addNode({ name: 'emulating', allocatable: { cpu: '64', memory: '256Gi' } });
  space = await world.namespace('warm');
  // What the chart writes, for `svc3 vm explain`.
  await world.client.create(namespaces, { metadata: { name: ours.system } });
  await world.client.create(configMaps, {
    metadata: { name: objectNames.settings, namespace: ours.system },
    data: { SVC3_RUNNER_IMAGE: 'registry.example.com/svc3-runner:test' },
  });
  operator = await startVmOperator(world.client);
  const key = { name: 'golden', namespace: space.name };
  await world.client.create(images, {
    metadata: key,
    spec: { source: { vm: { name: 'gone', mode: 'SaveWithMemory' } } },
  });
  const lastTransitionTime = new Date().toISOString();
  const body = {
    status: {
      digest,
      reference: `r.example.com/svc3/warm/golden@${digest}`,
      architecture: 'amd64',
      memory: {
        digest,
        size: '256Mi',
        cpu: 1,
        cpuModel: 'Old CPU',
        cpuFlags: 'avx sse',
        accelerator: 'kvm',
        qemu: '10.0.3',
      },
      conditions: [{ type: 'Ready', status: 'True', reason: 'Stored', message: '', lastTransitionTime }],
    },
  };
  await world.client.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

/** The verdicts of the nodes, as the command line of a cluster administrator shows them: node and how the guest would start. */
async function starts(name: string): Promise<Record<string, string>> {
  const { stdout, code } = await svc3(['vm', 'explain', name, '-o', 'json'], {
    env: { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name },
  });
  expect(code).toBe(0);
  const { nodes } = JSON.parse(stdout) as {
    nodes: readonly { node: string; warmStart?: { fromMemory: boolean; message: string } }[];
  };
  return Object.fromEntries(
    nodes.map(({ node, warmStart }) => [
      node,
      warmStart?.fromMemory === true ? 'warm' : (warmStart?.message ?? ''),
    ]),
  );
}

async function nodeOfPod(name: string): Promise<string | undefined> {
  const pod = await space.pod(name);
  return pod === undefined ? undefined : nodeOf(pod);
}

test('a VM whose image has a memory goes to the node that the memory fits, and explain says of each how it would start', async () => {
  await space.deploy('boots');
  await expect.poll(() => nodeOfPod('boots'), slow).toBe('emulating');
  expect(await starts('boots')).toEqual({ emulating: '', new: '', old: '' });

  await space.deploy('warm', { image: 'golden' });
  await expect.poll(() => nodeOfPod('warm'), slow).toBe('old');
  expect(await starts('warm')).toEqual({
    emulating: 'the memory was saved under kvm, the node has tcg',
    new: 'the memory was saved on CPU Old CPU, the node has New CPU',
    old: 'warm',
  });
  const page = await svc3(['vm', 'explain', 'warm'], {
    env: { KUBECONFIG: world.controlPlane.kubeconfigPath, SVC3_DEFAULT_NAMESPACE: space.name },
  });
  expect(page.stdout).toMatch(/^NODE +FITS +FREE +REASONS +START$/m);
  expect(page.stdout).toMatch(/^old +yes +\d+% +- +warm$/m);
  expect(page.stdout).toMatch(/^new +yes +\d+% +- +cold: the memory was saved on CPU Old CPU/m);
});

test('one that the memory does not fit, or that is to be elsewhere, is not held up by it', async () => {
  await space.deploy('larger', { image: 'golden', memory: '512Mi' });
  await expect.poll(() => nodeOfPod('larger'), slow).toBe('new');
  const refusal = 'the memory was saved with MiB of memory: 256, the VM has 512';
  expect(await starts('larger')).toEqual({ emulating: refusal, new: refusal, old: refusal });
  await space.deploy('elsewhere', { image: 'golden', nodeName: 'new' });
  await expect.poll(() => nodeOfPod('elsewhere'), slow).toBe('new');
  await space.deploy('huge', { image: 'golden', cpu: 32 });
  await expect.poll(() => nodeOfPod('huge'), slow).toBe('emulating');
});
