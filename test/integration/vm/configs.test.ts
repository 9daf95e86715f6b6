import { afterAll, beforeAll, expect, test } from 'vitest';
import { images, vmConfigs } from '../../../src/api/resources.ts';
import { startVmOperator, type TestOperator } from '../../support/operator.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from './harness.ts';

let world: VmWorld;
let operator: TestOperator;
let shared: VmNamespace;
let own: VmNamespace;

beforeAll(async () => {
  world = await vmWorld();
  await world.kubelet.addNode({ name: 'n1' });
  [shared, own] = await Promise.all([world.namespace('shared'), world.namespace('own')]);
  operator = await startVmOperator(world.client);
});

afterAll(async () => {
  await operator?.stop();
  await world?.stop();
});

test('a VM waits for the VMConfig of another namespace, and for the Image that it names there, and is woken by both', async () => {
  await own.deploy('vm', { config: 'small', configNamespace: 'shared' });
  await own.until('vm', 'Scheduled', {
    reason: 'ConfigNotFound',
    message: 'VMConfig small does not exist in namespace shared',
  });
  const metadata = { name: 'small', namespace: shared.name };
  await world.client.create(vmConfigs, { metadata, spec: { image: 'golden', tag: 'build' } });
  await own.until('vm', 'Scheduled', {
    reason: 'ImageNotFound',
    message: 'Image golden does not exist in namespace shared',
  });

  const key = { name: 'golden', namespace: shared.name };
  await world.client.create(images, { metadata: key, spec: { source: { upload: {} } } });
  const reference = `r.example.com/svc3/shared/golden@sha256:${'0'.repeat(64)}`;
  const lastTransitionTime = new Date().toISOString();
  const ready = { type: 'Ready', status: 'True', reason: 'Stored', message: '', lastTransitionTime };
  const body = { status: { reference, architecture: 'amd64', conditions: [ready] } };
  await world.client.patch(images, key, { type: 'merge', body }, { subresource: 'status' });
  await own.untilReady('vm');
  await expect
    .poll(async () => (await own.vm('vm')).status?.effective, slow)
    .toMatchObject({ image: reference, imageName: 'golden', imageNamespace: 'shared', tag: 'build' });
});
