import { open, readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { images, pods, secrets } from '../../../src/api/resources.ts';
import { runnerPaths } from '../../../src/api/runner.ts';
import { findCondition } from '../../../src/controller/conditions.ts';
import { ticketSecret } from '../../../src/controllers/image/names.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { allowBootTime, startRunner } from '../runner/harness.ts';
import {
  anImage,
  becomesReady,
  imageCluster,
  readyOf,
  soon,
  startImageOperator,
  type ImageCluster,
  type ImageOperator,
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

function startOperator(vm: SavedVm): ImageOperator {
  const settings = { ...cluster.settings, runnerPort: vm.runner.port };
  const operator = startImageOperator(cluster.client, settings, { openRunner: openRunnerOf(vm) });
  onTestFinished(() => operator.stop());
  return operator;
}

describe('the disk of a VM', () => {
  test('is saved as a new image, byte by byte, and neither copy nor ticket is left', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, runner, overlay } = vm;
    await writePattern(overlay, '0x5a');
    startOperator(vm);
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    const status = await becomesReady(client, namespace, 'saved');
    expect(status).toMatchObject({ size: '64Mi', format: 'qcow2', architecture: 'amd64' });
    await expectSame(store, status.reference, overlay);
    await expect.poll(async () => (await client.list(pods, { namespace })).items, soon).toEqual([]);
    const { data } = await client.get(secrets, ticketSecret, namespace);
    expect(data ?? {}).toEqual({});
    await expect.poll(() => readdir(`${runner.pod.root}${runnerPaths.state}/exports`), soon).toEqual([]);
  });

  test('leaves no Secret behind once the last image that had a ticket is gone', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace } = vm;
    startOperator(vm);
    for (const name of ['first', 'last']) {
      await client.create(images, anImage(namespace, name, { vm: { name: 'vm', mode: 'Save' } }));
      await becomesReady(client, namespace, name);
    }
    const owners = async () =>
      (await client.get(secrets, ticketSecret, namespace)).metadata.ownerReferences?.map(({ name }) => name);
    expect(await owners()).toEqual(['first', 'last']);
    await client.delete(images, { name: 'first', namespace });
    await expect.poll(owners, soon).toEqual(['last']);
    const { managedFields = [] } = (await client.get(secrets, ticketSecret, namespace)).metadata;
    expect(managedFields.filter(({ manager }) => manager?.startsWith('svc3-worker-'))).toHaveLength(1);
    await client.delete(images, { name: 'last', namespace });
    const left = async () =>
      (await client.list(secrets, { namespace })).items.filter(
        ({ metadata }) => metadata.name === ticketSecret,
      );
    await expect.poll(left, soon).toEqual([]);
  });

  test('is committed as a new version of its image, as often as is asked, and the versions before stay', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, overlay } = vm;
    startOperator(vm);
    await client.create(images, anImage(namespace, 'base', { blank: { size: '64Mi' } }));
    const first = await becomesReady(client, namespace, 'base');
    const digests = [first.digest];
    for (const [request, pattern] of [
      ['one', '0x11'],
      ['two', '0x22'],
    ] as const) {
      await writePattern(overlay, pattern);
      const body = { spec: { commit: { vm: 'vm', request } } };
      await client.patch(images, { name: 'base', namespace }, { type: 'merge', body });
      await expect
        .poll(async () => (await client.get(images, 'base', namespace)).status?.commitRequest, soon)
        .toBe(request);
      const status = await becomesReady(client, namespace, 'base');
      expect(findCondition(status.conditions, 'Committed')).toMatchObject({ status: 'True' });
      await expectSame(store, status.reference, overlay);
      digests.push(status.digest);
    }
    expect(new Set(digests).size).toBe(3);
    for (const digest of digests)
      expect(await store.digestOf(`svc3/${namespace}/base`, digest ?? '')).toBe(digest);
    expect(await store.digestOf(`svc3/${namespace}/base`, 'latest')).toBe(digests.at(-1));
  });

  test('saved twice at once becomes two images; a second one of the same name is refused', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, overlay } = vm;
    await writePattern(overlay, '0x33');
    startOperator(vm);
    const save = (name: string) =>
      client.create(images, anImage(namespace, name, { vm: { name: 'vm', mode: 'Save' } }));
    await Promise.all([save('left'), save('right')]);
    await expect(save('left')).rejects.toMatchObject({ reason: 'AlreadyExists' });
    for (const name of ['left', 'right'])
      await expectSame(store, (await becomesReady(client, namespace, name)).reference, overlay);
  });

  test('that its runner cannot copy is told with the reason, and saved once it can', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, overlay } = vm;
    const disk = await open(overlay, 'r+');
    onTestFinished(() => disk.close());
    const header = Buffer.alloc(8);
    await disk.read(header, 0, header.length, 0);
    await disk.write(Buffer.alloc(header.length), 0, header.length, 0);
    startOperator(vm);
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    await expect
      .poll(() => readyOf(client, namespace, 'saved'), soon)
      .toContain('WorkerFailed: VM vm: its disk could not be copied: ');
    await disk.write(header, 0, header.length, 0);
    await expectSame(store, (await becomesReady(client, namespace, 'saved')).reference, overlay);
  });

  test('is saved once its runner is back', async () => {
    const { client } = cluster;
    const vm = await aStoppedVm(cluster);
    const { namespace, runner, overlay } = vm;
    runner.process.kill('SIGKILL');
    await runner.exitCode();
    startOperator(vm);
    await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'Save' } }));
    await expect.poll(() => readyOf(client, namespace, 'saved'), soon).toContain('RunnerUnreachable: VM vm:');
    await startRunner(runner.pod, { SVC3_CONTROL_PORT: String(runner.port) });
    await expectSame(store, (await becomesReady(client, namespace, 'saved')).reference, overlay);
  });
});
