import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { annotations } from '../../src/api/meta.ts';
import { images, pods, vms } from '../../src/api/resources.ts';
import type { RegistryClient } from '../../src/registry/client.ts';
import { podNameOf } from '../../src/controllers/vm/names.ts';
import { becomesReady, readyOf, soon, statusOf } from '../integration/image/harness.ts';
import { expectSame, writePattern, type SavedVm } from '../integration/image/savedvm.ts';
import { allowBootTime } from '../integration/runner/harness.ts';
import type { TestOperator } from '../support/operator.ts';
import {
  aDeployedVm,
  commit,
  found,
  save,
  savingWorld,
  startOperator,
  untilGone,
  untilKilledTwice,
  type SavingWorld,
} from './savingworld.ts';

allowBootTime();

let world: SavingWorld;
let store: RegistryClient;

beforeAll(async () => {
  world = await savingWorld();
  store = world.openStore();
});

afterAll(async () => {
  await store?.close();
  await world?.remove();
});

const messageOfVm = async ({ namespace }: SavedVm) =>
  (await world.client.get(vms, 'vm', namespace)).status?.conditions?.find(({ type }) => type === 'Ready')
    ?.message;
const remove = ({ namespace }: SavedVm) => world.client.delete(vms, { name: 'vm', namespace });

describe('a VM that is deleted right after it was saved', () => {
  test('waits until the image is there, and says so', async () => {
    const { client, workers } = world;
    const vm = await aDeployedVm(world);
    await writePattern(vm.overlay, '0x5a');
    workers.pause();
    await startOperator(world, { vm });
    await save(world, vm, 'saved');
    await remove(vm);
    await expect
      .poll(() => messageOfVm(vm), soon)
      .toMatch(/it waits until image saved is saved, at most until 20/);
    expect(
      (await client.get(pods, podNameOf('vm'), vm.namespace)).metadata.deletionTimestamp,
    ).toBeUndefined();
    workers.resume();
    const { reference } = await becomesReady(client, vm.namespace, 'saved');
    await untilGone(world, vm);
    await expectSame(store, reference, vm.overlay);
  });

  test('waits also where the operator learns of both at once', async () => {
    const vm = await aDeployedVm(world);
    await writePattern(vm.overlay, '0x66');
    await save(world, vm, 'saved');
    await remove(vm);
    await startOperator(world, { vm });
    const { reference } = await becomesReady(world.client, vm.namespace, 'saved');
    await expectSame(store, reference, vm.overlay);
    await untilGone(world, vm);
  });

  test('waits also where --cascade=orphan has taken the owner of its pod away', async () => {
    const { client, workers } = world;
    const vm = await aDeployedVm(world);
    await writePattern(vm.overlay, '0x55');
    await save(world, vm, 'saved');
    await client.delete(vms, { name: 'vm', namespace: vm.namespace }, { propagationPolicy: 'Orphan' });
    // As the garbage collector does, which hears of new kinds every 30 seconds.
    const key = { name: podNameOf('vm'), namespace: vm.namespace };
    await client.patch(pods, key, { type: 'merge', body: { metadata: { ownerReferences: null } } });
    workers.pause();
    await startOperator(world, { vm });
    await expect.poll(() => messageOfVm(vm), soon).toMatch(/it waits until image saved is saved/);
    workers.resume();
    const { reference } = await becomesReady(client, vm.namespace, 'saved');
    await expectSame(store, reference, vm.overlay);
    await untilGone(world, vm);
  });

  test('waits for a commit as well', async () => {
    const vm = await aDeployedVm(world);
    await writePattern(vm.overlay, '0x77');
    await commit(world, vm, 'base', 'one');
    await remove(vm);
    await startOperator(world, { vm });
    await untilGone(world, vm);
    const status = await statusOf(world.client, vm.namespace, 'base');
    expect(status?.commitRequest).toBe('one');
    await expectSame(store, status?.reference, vm.overlay);
  });

  test.each([1, 2, 3, 4, 5])('waits also where the operator dies at its write number %i', async (at) => {
    const vm = await aDeployedVm(world);
    await writePattern(vm.overlay, '0x33');
    await save(world, vm, 'saved');
    await remove(vm);
    await untilKilledTwice(world, at, (client) => startOperator(world, { vm, client }));
    await startOperator(world, { vm });
    const { reference } = await becomesReady(world.client, vm.namespace, 'saved');
    await expectSame(store, reference, vm.overlay);
    await untilGone(world, vm);
  });
});

describe('a deletion that waits', () => {
  /** A VM whose save cannot go on, since no worker runs. */
  async function waiting(): Promise<{ vm: SavedVm; operator: TestOperator }> {
    const vm = await aDeployedVm(world);
    world.workers.pause();
    const operator = await startOperator(world, { vm });
    await save(world, vm, 'saved');
    await remove(vm);
    await expect.poll(() => messageOfVm(vm), soon).toMatch(/image saved is saved/);
    return { vm, operator };
  }

  test('refuses those who come later, with a sentence', async () => {
    const { vm } = await waiting();
    const { deletionTimestamp = '' } = (await world.client.get(vms, 'vm', vm.namespace)).metadata;
    // Times of objects are whole seconds.
    await expect.poll(() => Date.now() - Date.parse(deletionTimestamp) > 1_000, soon).toBe(true);
    await save(world, vm, 'late');
    await expect
      .poll(() => readyOf(world.client, vm.namespace, 'late'), soon)
      .toBe('Stalled SourceDeleted: VM vm was being deleted when this Image was made');
    world.workers.resume();
    await becomesReady(world.client, vm.namespace, 'saved');
    await untilGone(world, vm);
    expect(await readyOf(world.client, vm.namespace, 'late')).toMatch('Stalled SourceDeleted');
  });

  test('ends when the image is deleted', async () => {
    const { vm } = await waiting();
    await world.client.delete(images, { name: 'saved', namespace: vm.namespace });
    await untilGone(world, vm);
    world.workers.resume();
  });

  test('ends when an annotation says so, and the image says what it did not get', async () => {
    const { vm } = await waiting();
    const body = { metadata: { annotations: { [annotations.deleteWithoutSaving]: 'true' } } };
    await world.client.patch(vms, { name: 'vm', namespace: vm.namespace }, { type: 'merge', body });
    await untilGone(world, vm);
    // Its worker finds no runner any more; another VM of the name is not what was asked for.
    world.workers.resume();
    await expect
      .poll(() => readyOf(world.client, vm.namespace, 'saved'), soon)
      .toBe('Stalled SourceDeleted: VM vm was deleted before its disk was saved');
  });

  test('ends when its time is over', async () => {
    const { vm, operator } = await waiting();
    await operator.stop();
    const { deletionTimestamp = '' } = (await world.client.get(vms, 'vm', vm.namespace)).metadata;
    // A while from now: the deletion waits under this operator as well, before it ends.
    const saveWaitMs = Date.now() - Date.parse(deletionTimestamp) + 4_000;
    await startOperator(world, { vm, settings: { saveWaitMs } });
    await untilGone(world, vm);
    world.workers.resume();
  });

  test('ends with its namespace', async () => {
    const { vm } = await waiting();
    const path = `/api/v1/namespaces/${vm.namespace}`;
    await world.client.request({ method: 'DELETE', path });
    await expect.poll(() => found(world.client.get(vms, 'vm', vm.namespace)), soon).toBeUndefined();
    world.workers.resume();
  });
});

test('a VM that is gone has no guest any more, and one without finalizer got it before its pod', async () => {
  const vm = await aDeployedVm(world);
  const { metadata } = await world.client.get(vms, 'vm', vm.namespace);
  expect(metadata.finalizers).toEqual(['svc3.dev/cleanup']);
  await startOperator(world, { vm });
  await remove(vm);
  await untilGone(world, vm);
});
