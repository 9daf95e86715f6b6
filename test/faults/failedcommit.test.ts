import { afterAll, beforeAll, expect, test } from 'vitest';
import { createImageTransfer } from '../../src/http/uploads/imagetransfer.ts';
import { createUploadTargets } from '../../src/usecases/uploadtarget.ts';
import { createNamespaceRegistries } from '../../src/controllers/image/registries.ts';
import { soon, statusOf } from '../integration/image/harness.ts';
import { allowBootTime } from '../integration/runner/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { aDeployedVm, deploy, savingWorld, startOperator, type SavingWorld } from './savingworld.ts';

allowBootTime();

let world: SavingWorld;
let api: TestApi;

beforeAll(async () => {
  const saving = await savingWorld();
  // The disk of the VM is larger.
  world = { ...saving, settings: { ...saving.settings, maxVirtualBytes: 2 ** 25 } };
  const { client, settings } = world;
  const registries = createNamespaceRegistries(client, settings.store);
  api = await startTestApi(client, {
    transfer: createImageTransfer(createUploadTargets(client), registries, settings.store),
  });
});

afterAll(async () => {
  await api?.close();
  await world?.remove();
});

test('an image whose commit failed is usable in the version before, and says why', async () => {
  const vm = await aDeployedVm(world);
  const { namespace } = vm;
  await startOperator(world, { vm });
  const before = await statusOf(world.client, namespace, 'base');
  const call = (method: string, path: string, body?: object) =>
    api.call(method, `/api/v1/namespaces/${namespace}${path}`, {
      token: world.controlPlane.adminToken,
      ...(body === undefined ? {} : { body }),
    });
  expect((await call('POST', '/vms/vm/commit', {})).status).toBe(202);
  const image = async () => (await call('GET', '/images/base')).json as Record<string, unknown>;
  await expect.poll(image, soon).toMatchObject({
    state: 'Ready',
    size: '64Mi',
    errorMessage: expect.stringMatching(/the largest that is taken/),
  });
  const status = await statusOf(world.client, namespace, 'base');
  expect(status?.digest).toBe(before?.digest);
  expect(status?.conditions?.map(({ type, status, reason }) => `${type}=${status} ${reason}`)).toEqual([
    'Ready=True Stored',
    'Committed=False DiskRefused',
  ]);
  const disk = await call('GET', '/images/base/download');
  expect([disk.status, disk.text.slice(0, 3)]).toEqual([200, 'QFI']);
  await deploy(world, namespace, { image: 'base' }, 'next');
  // Who waits for the commit is told.
  const waited = await call('POST', '/vms/vm/commit?wait=true', {});
  expect([waited.status, waited.json.message]).toEqual([422, expect.stringMatching(/^image base: /)]);
});
