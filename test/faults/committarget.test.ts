import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { images, vmConfigs, vms } from '../../src/api/resources.ts';
import { createVms } from '../../src/cli/service/kubernetes/vms.ts';
import { findCondition } from '../../src/controller/conditions.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { RegistryClient } from '../../src/registry/client.ts';
import { anImage, becomesReady, soon, startImageOperator, statusOf } from '../integration/image/harness.ts';
import { expectSame, writePattern, type SavedVm } from '../integration/image/savedvm.ts';
import { allowBootTime } from '../integration/runner/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { aDeployedVm, commit, deploy, savingWorld, startOperator, type SavingWorld } from './savingworld.ts';

allowBootTime();

let world: SavingWorld;
let store: RegistryClient;
let api: TestApi;

beforeAll(async () => {
  world = await savingWorld();
  store = world.openStore();
  api = await startTestApi(world.client);
});

afterAll(async () => {
  await api?.close();
  await store?.close();
  await world?.remove();
});

const commitByHttp = ({ namespace }: SavedVm) =>
  api.call('POST', `/api/v1/namespaces/${namespace}/vms/vm/commit?wait=true`, {
    token: world.controlPlane.adminToken,
    body: {},
  });
const commitByCli = ({ namespace }: SavedVm) =>
  createVms(
    { client: world.client, informers: createInformer },
    { http: () => Promise.reject(new Error('no HTTP API')), warning: () => undefined },
  ).commit(namespace, 'vm', {});

describe('a VM whose VMConfig names another image since it was placed', () => {
  let vm: SavedVm;
  let base: string | undefined;
  let other: string | undefined;

  beforeEach(async () => {
    const { client } = world;
    vm = await aDeployedVm(world, async (namespace) => {
      await client.create(vmConfigs, { metadata: { name: 'web', namespace }, spec: { image: 'base' } });
      return { config: 'web' };
    });
    const { namespace } = vm;
    await startOperator(world, { vm });
    await client.create(images, anImage(namespace, 'other', { blank: { size: '32Mi' } }));
    other = (await becomesReady(client, namespace, 'other')).digest;
    base = (await statusOf(client, namespace, 'base'))?.digest;
    const body = { spec: { image: 'other' } };
    await client.patch(vmConfigs, { name: 'web', namespace }, { type: 'merge', body });
    await expect
      .poll(() => api.services.caches.vmConfigs.objects.get('web', namespace)?.spec.image, soon)
      .toBe('other');
    await writePattern(vm.overlay, '0x44');
  });

  /** Which of the two has a new version. */
  const changed = async () => {
    const digests = await Promise.all(
      ['base', 'other'].map(async (name) => (await statusOf(world.client, vm.namespace, name))?.digest),
    );
    return { base: digests[0] !== base, other: digests[1] !== other };
  };

  test('is committed by HTTP to the image that it runs from', async () => {
    const reply = await commitByHttp(vm);
    await expect.poll(changed, soon).toEqual({ base: true, other: false });
    expect(reply).toMatchObject({ status: 200, json: { name: 'base', state: 'Ready' } });
    await expectSame(store, (await statusOf(world.client, vm.namespace, 'base'))?.reference, vm.overlay);
  });

  test('is committed by the CLI to the image that it runs from', async () => {
    expect(await commitByCli(vm)).toMatchObject({ name: 'base', state: 'Updating' });
    await expect.poll(changed, soon).toEqual({ base: true, other: false });
    await expectSame(store, (await statusOf(world.client, vm.namespace, 'base'))?.reference, vm.overlay);
  });

  test('is not committed to the other one, whoever asks for it', async () => {
    await commit(world, vm, 'other', 'mine');
    const status = () => statusOf(world.client, vm.namespace, 'other');
    await expect.poll(async () => (await status())?.commitRequest, soon).toBe('mine');
    expect((await status())?.conditions).toMatchObject([
      { type: 'Ready', status: 'True' },
      {
        type: 'Committed',
        status: 'False',
        reason: 'CommitRefused',
        message: 'VM vm runs from Image base and not from this one',
      },
    ]);
    expect(await changed()).toEqual({ base: false, other: false });
  });
});

test('a VM that runs from a registry reference is told so, by HTTP and CLI', async () => {
  const vm = await aDeployedVm(world, async (namespace) => {
    const { reference = '' } = (await statusOf(world.client, namespace, 'base')) ?? {};
    return { image: reference, architecture: 'amd64' };
  });
  const { reference = '' } = (await statusOf(world.client, vm.namespace, 'base')) ?? {};
  const message = `VM vm runs from registry reference ${reference}: save it under a name instead`;
  expect(await commitByHttp(vm)).toMatchObject({ status: 409, json: { message } });
  await expect(commitByCli(vm)).rejects.toMatchObject({ reason: 'Conflict', message });
});

test('a commit that takes the place of that of another VM is carried out', async () => {
  const vm = await aDeployedVm(world);
  const { client } = world;
  const { namespace } = vm;
  await startOperator(world, { vm });
  // Nothing is behind its runner's address.
  await deploy(world, namespace, { image: 'base' }, 'other');
  const { uid } = (await client.get(vms, 'other', namespace)).metadata;
  const first = { type: 'merge', body: { spec: { commit: { vm: 'other', request: 'one' } } } } as const;
  await client.patch(images, { name: 'base', namespace }, first);
  await expect.poll(async () => (await statusOf(client, namespace, 'base'))?.vmUid, soon).toBe(uid);
  await commit(world, vm, 'base', 'two');
  const status = () => statusOf(client, namespace, 'base');
  await expect.poll(async () => (await status())?.commitRequest, soon).toBe('two');
  expect(findCondition((await status())?.conditions, 'Committed')).toMatchObject({ status: 'True' });
  await expectSame(store, (await status())?.reference, vm.overlay);
});

test('an Image that was committed can be applied again as it was written', async () => {
  const vm = await aDeployedVm(world);
  const { client } = world;
  const operator = startImageOperator(client, world.settings);
  onTestFinished(() => operator.stop());
  const written = {
    apiVersion: 'svc3.dev/v1',
    kind: 'Image',
    ...anImage(vm.namespace, 'base', { blank: { size: '64Mi' } }),
  };
  await commit(world, vm, 'base', 'one');
  const { spec } = await client.apply(images, written, { fieldManager: 'gitops', force: true });
  expect(spec).toMatchObject({ source: { blank: { size: '64Mi' } }, commit: { vm: 'vm', request: 'one' } });
});
