import { copyFile } from 'node:fs/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { images, vms } from '../../src/api/resources.ts';
import type { VmSpecInput } from '../../src/api/vm.ts';
import type { RegistryClient } from '../../src/registry/client.ts';
import { becomesReady, readyOf, soon, statusOf } from '../integration/image/harness.ts';
import { expectSame, holdSame, writePattern, type SavedVm } from '../integration/image/savedvm.ts';
import { allowBootTime } from '../integration/runner/harness.ts';
import {
  aDeployedVm,
  commit,
  save,
  savingWorld,
  startOperator,
  type SavingWorld,
  untilKilledTwice,
} from './savingworld.ts';

allowBootTime();

let world: SavingWorld;
let store: RegistryClient;

beforeAll(async () => {
  world = await savingWorld();
  // One holds no VM for each of the tests.
  await world.kubelet.addNode({ name: 'n2' });
  store = world.openStore();
});

afterEach(() => world.workers.resume());

afterAll(async () => {
  await store?.close();
  await world?.remove();
});

/** A VM whose guest is off and whose disk holds something, and a copy of the disk as it is. */
async function aVmWithWork(pattern: string): Promise<{ vm: SavedVm; asItWas: string }> {
  const vm = await aDeployedVm(world);
  await patchSpec(vm, { powerState: 'Stopped' });
  await writePattern(vm.overlay, pattern);
  const asItWas = `${vm.overlay}.before`;
  await copyFile(vm.overlay, asItWas);
  return { vm, asItWas };
}

const patchSpec = ({ namespace }: SavedVm, spec: Partial<VmSpecInput>) =>
  world.client.patch(vms, { name: 'vm', namespace }, { type: 'merge', body: { spec } });
const revert = (vm: SavedVm) => patchSpec(vm, { revertRequest: 'one' });
const start = (vm: SavedVm, more: Partial<Parameters<typeof startOperator>[1]> = {}) =>
  startOperator(world, { vm, tellsRunner: true, ...more });
const statusOfVm = async ({ namespace }: SavedVm) =>
  (await world.client.get(vms, 'vm', namespace)).status ?? {};
const messageOfVm = async (vm: SavedVm) =>
  (await statusOfVm(vm)).conditions?.find(({ type }) => type === 'Ready')?.message;

/** Waits until the disk holds nothing any more. */
async function untilReverted(vm: SavedVm, asItWas: string): Promise<void> {
  await expect.poll(async () => (await statusOfVm(vm)).revertRequest, soon).toBe('one');
  expect(await holdSame(vm.overlay, asItWas)).toBe(false);
}

describe('a VM that is reverted right after it was saved', () => {
  test('is reverted once the image is there, and says so', async () => {
    const { vm, asItWas } = await aVmWithWork('0x5a');
    world.workers.pause();
    await start(vm);
    await save(world, vm, 'saved');
    await revert(vm);
    await expect
      .poll(() => messageOfVm(vm), soon)
      .toMatch(/the revert waits until image saved is saved, at most until 20/);
    world.workers.resume();
    const { reference } = await becomesReady(world.client, vm.namespace, 'saved');
    await expectSame(store, reference, asItWas);
    await untilReverted(vm, asItWas);
  });

  test('is so also where the operator learns of both at once', async () => {
    const { vm, asItWas } = await aVmWithWork('0x66');
    await save(world, vm, 'saved');
    await revert(vm);
    await start(vm);
    const { reference } = await becomesReady(world.client, vm.namespace, 'saved');
    await expectSame(store, reference, asItWas);
    await untilReverted(vm, asItWas);
  });

  test('is so once all that were asked for before are there, of which a runner copies one at a time', async () => {
    const { vm, asItWas } = await aVmWithWork('0x55');
    await save(world, vm, 'one');
    await save(world, vm, 'two');
    await revert(vm);
    await start(vm);
    for (const name of ['one', 'two']) {
      const { reference } = await becomesReady(world.client, vm.namespace, name);
      await expectSame(store, reference, asItWas);
    }
    await untilReverted(vm, asItWas);
  });

  test('is so after a commit as well', async () => {
    const { vm, asItWas } = await aVmWithWork('0x77');
    await commit(world, vm, 'base', 'one');
    await revert(vm);
    await start(vm);
    await untilReverted(vm, asItWas);
    const status = await statusOf(world.client, vm.namespace, 'base');
    expect(status?.commitRequest).toBe('one');
    await expectSame(store, status?.reference, asItWas);
  });

  test.each([1, 2, 3, 4, 5])('is so also where the operator dies at its write number %i', async (at) => {
    const { vm, asItWas } = await aVmWithWork('0x33');
    await save(world, vm, 'saved');
    await revert(vm);
    await untilKilledTwice(world, at, (client) => start(vm, { client }));
    await start(vm);
    const { reference } = await becomesReady(world.client, vm.namespace, 'saved');
    await expectSame(store, reference, asItWas);
    await untilReverted(vm, asItWas);
  });
});

describe('a revert that waits', () => {
  test('goes on when the image is deleted', async () => {
    const { vm, asItWas } = await aVmWithWork('0x44');
    world.workers.pause();
    await save(world, vm, 'saved');
    await revert(vm);
    await start(vm);
    await expect.poll(() => messageOfVm(vm), soon).toMatch(/image saved is saved/);
    await world.client.delete(images, { name: 'saved', namespace: vm.namespace });
    await untilReverted(vm, asItWas);
  });

  test('goes on when its time is over, and the image says what it did not get', async () => {
    const { vm, asItWas } = await aVmWithWork('0x22');
    world.workers.pause();
    await save(world, vm, 'saved');
    await commit(world, vm, 'base', 'one');
    await revert(vm);
    await start(vm, { settings: { saveWaitMs: 0 } });
    await untilReverted(vm, asItWas);
    world.workers.resume();
    const why = 'SourceDeleted: VM vm was reverted before its disk was saved';
    expect(await readyOf(world.client, vm.namespace, 'saved')).toBe(`Stalled ${why}`);
    const { conditions, commitRequest } = (await statusOf(world.client, vm.namespace, 'base')) ?? {};
    expect(commitRequest).toBe('one');
    expect(conditions).toContainEqual(
      expect.objectContaining({ type: 'Committed', reason: 'SourceDeleted' }),
    );
    // Whoever asks after the revert gets the disk as it is now.
    await save(world, vm, 'after');
    const { reference } = await becomesReady(world.client, vm.namespace, 'after');
    await expectSame(store, reference, vm.overlay);
  });
});
