import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { images, pods, secrets } from '../../../src/api/resources.ts';
import { ticketSecret } from '../../../src/controllers/image/names.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { crashAtEachWrite } from './crashing.ts';
import { allowBootTime } from '../runner/harness.ts';
import {
  anImage,
  becomesReady,
  imageCluster,
  soon,
  startImageOperator,
  type ImageCluster,
} from './harness.ts';
import { aStoppedVm, expectSame, openRunnerOf, writePattern, type SavedVm } from './savedvm.ts';

allowBootTime();

let cluster: ImageCluster;
let store: RegistryClient;

beforeAll(async () => {
  cluster = await imageCluster();
  store = cluster.openStore();
});

afterAll(async () => {
  await store?.close();
  await cluster?.remove();
});

const operatorOf = (vm: SavedVm) => ({
  namespace: vm.namespace,
  settings: { ...cluster.settings, runnerPort: vm.runner.port },
  parts: { openRunner: openRunnerOf(vm) },
});

/** The disk is in the store as it is, and neither pod nor ticket is left. */
async function expectDone(vm: SavedVm, name: string): Promise<void> {
  const { client } = cluster;
  const { namespace, overlay } = vm;
  await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
  await expectSame(store, (await client.get(images, name, namespace)).status?.reference, overlay);
  await expect
    .poll(async () => (await client.get(secrets, ticketSecret, namespace)).data ?? {}, soon)
    .toEqual({});
}

/** Every operator that dies starts with lists, and a worker is a process. */
const within = { timeout: 180_000 };
const faults = ['lostAnswer', 'lostRequest', 'lostAnswer', 'lostRequest'] as const;

describe('an operator that dies at its writes, done or not,', () => {
  test('saves a disk in the end, once', within, async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, overlay } = vm;
    await writePattern(overlay, '0x5a');
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    const isDone = async () => (await client.get(images, 'saved', namespace)).status?.digest !== undefined;
    await crashAtEachWrite(cluster, { isDone, faults, ...operatorOf(vm) });
    await becomesReady(client, namespace, 'saved');
    await expectDone(vm, 'saved');
    const tags = await store.tags(`svc3/${namespace}/saved`);
    expect(tags).toHaveLength(2);
  });

  test('commits a disk in the end, and the version before stays', within, async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, overlay } = vm;
    const { settings, parts } = operatorOf(vm);
    const first = startImageOperator(client, settings, parts);
    onTestFinished(() => first.stop());
    await client.create(images, anImage(namespace, 'base', { blank: { size: '64Mi' } }));
    const { digest = '' } = await becomesReady(client, namespace, 'base');
    await first.stop();
    await writePattern(overlay, '0x11');
    const body = { spec: { commit: { vm: 'vm', request: 'one' } } };
    await client.patch(images, { name: 'base', namespace }, { type: 'merge', body });
    const isDone = async () => (await client.get(images, 'base', namespace)).status?.commitRequest === 'one';
    await crashAtEachWrite(cluster, { namespace, isDone, faults, settings, parts });
    const status = await becomesReady(client, namespace, 'base');
    await expectDone(vm, 'base');
    expect(status.digest).not.toBe(digest);
    const repository = `svc3/${namespace}/base`;
    expect(await store.digestOf(repository, digest)).toBe(digest);
    expect(await store.digestOf(repository, 'latest')).toBe(status.digest);
  });
});
