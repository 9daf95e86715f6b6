import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway } from '../../src/http/legacy/gateway.ts';
import { rows } from '../../src/http/legacy/table.ts';
import { images } from '../../src/api/resources.ts';
import { readyOf, soon, statusOf } from '../integration/image/harness.ts';
import type { SavedVm } from '../integration/image/savedvm.ts';
import { allowBootTime } from '../integration/runner/harness.ts';
import { startTestApi, type Answer, type TestApi } from '../support/api.ts';
import { aDeployedVm, savingWorld, startOperator, type SavingWorld } from './savingworld.ts';

allowBootTime();

let world: SavingWorld;
let api: TestApi;

beforeAll(async () => {
  world = await savingWorld();
  api = await startTestApi(world.client, {}, (services) => ({
    surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
  }));
});

afterAll(async () => {
  await api?.close();
  await world?.remove();
});

type Ask = (vm: SavedVm) => Promise<Answer>;
const call = (vm: SavedVm, path: string, body: object) =>
  api.call('POST', path, {
    token: world.controlPlane.adminToken,
    body,
    headers: { 'x-svc3-namespace': vm.namespace },
  });
const v1 = (vm: SavedVm, path: string, body: object) =>
  call(vm, `/api/v1/namespaces/${vm.namespace}/vms/vm/${path}?wait=true`, body);
const legacy = { svc_vm_name: 'vm' };

/** A VM of which this is asked while no worker runs: so long nobody is answered. */
async function unanswered(ask: Ask, image: string): Promise<{ vm: SavedVm; answer: Promise<Answer> }> {
  const vm = await aDeployedVm(world);
  world.workers.pause();
  await startOperator(world, { vm });
  let isAnswered = false;
  const answer = ask(vm).finally(() => (isAnswered = true));
  await expect
    .poll(async () => (await statusOf(world.client, vm.namespace, image))?.vmUid, soon)
    .toBeDefined();
  expect(isAnswered).toBe(false);
  return { vm, answer };
}

test.each<[string, Ask, string, object]>([
  ['POST save?wait=true', (vm) => v1(vm, 'save', { imageName: 'saved' }), 'saved', { state: 'Ready' }],
  ['POST commit?wait=true', (vm) => v1(vm, 'commit', {}), 'base', { state: 'Ready' }],
  [
    'image/save of 2.4.x',
    (vm) => call(vm, '/resources/image/save', { ...legacy, new_name: 'saved' }),
    'saved',
    { message: 'saved', errors: [] },
  ],
  [
    'image/commit of 2.4.x',
    (vm) => call(vm, '/resources/image/commit', legacy),
    'base',
    { message: 'committed', errors: [] },
  ],
])('%s answers when the image is ready', async (_, ask, image, json) => {
  const { vm, answer } = await unanswered(ask, image);
  world.workers.resume();
  expect(await answer).toMatchObject({ status: 200, json });
  expect(await readyOf(world.client, vm.namespace, image)).toBe('Ready');
  expect((await statusOf(world.client, vm.namespace, image))?.vmUid).toBeUndefined();
});

test.each<[string, Ask, object]>([
  [
    'POST save?wait=true',
    (vm) => v1(vm, 'save', { imageName: 'saved' }),
    { message: 'image saved was deleted before it was ready' },
  ],
  [
    'image/save of 2.4.x',
    (vm) => call(vm, '/resources/image/save', { ...legacy, new_name: 'saved' }),
    { errors: [{ message: 'image saved was deleted before it was ready' }] },
  ],
])('%s says what kept the image from being ready', async (_, ask, json) => {
  const { vm, answer } = await unanswered(ask, 'saved');
  await world.client.delete(images, { name: 'saved', namespace: vm.namespace });
  expect(await answer).toMatchObject({ status: 404, json });
  world.workers.resume();
});
