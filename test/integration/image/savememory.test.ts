import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { createZstdDecompress } from 'node:zlib';
import { extract } from 'tar-stream';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import type { ImageStatus } from '../../../src/api/image.ts';
import { images, vms } from '../../../src/api/resources.ts';
import { runnerPaths } from '../../../src/api/runner.ts';
import { findCondition } from '../../../src/controller/conditions.ts';
import type { RegistryClient } from '../../../src/registry/client.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { allowBootTime, aPod, startRunner } from '../runner/harness.ts';
import {
  anImage,
  becomesReady,
  imageCluster,
  soon,
  startImageOperator,
  type ImageCluster,
} from './harness.ts';
import { aStoppedVm, openRunnerOf, type SavedVm } from './savedvm.ts';

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

/** The VM runs, though there is nothing on its disk that could. */
async function aRunningVm(): Promise<SavedVm> {
  const vm = await aStoppedVm(cluster);
  await vm.runner.client.power({ action: 'start' });
  const key = { namespace: vm.namespace, name: vm.name };
  const body = { status: { powerState: 'Running' } };
  await cluster.client.patch(vms, key, { type: 'merge', body }, { subresource: 'status' });
  const settings = { ...cluster.settings, runnerPort: vm.runner.port };
  const operator = startImageOperator(cluster.client, settings, { openRunner: openRunnerOf(vm) });
  onTestFinished(() => operator.stop());
  return vm;
}

/** Unpacks all layers of an image, as a kubelet's runtime does. */
async function unpack(text: string, folder: string): Promise<void> {
  const reference = parseReference(text);
  const image = await resolveImage(store, reference);
  for (const { digest, mediaType } of image.manifest.layers) {
    const blob = await store.blob(reference.repository, digest);
    const tar = mediaType.endsWith('+zstd') ? blob.pipe(createZstdDecompress()) : blob;
    for await (const entry of Readable.from(tar).pipe(extract())) {
      const content = await buffer(entry);
      const path = join(folder, entry.header.name);
      if (entry.header.type !== 'file') continue;
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, content);
    }
  }
}

test('the memory of a VM is stored beside its disk, told in the status of its Image, and VMs go on from it', async () => {
  const { client } = cluster;
  const vm = await aRunningVm();
  const { namespace, runner } = vm;
  const source = { vm: { name: 'vm', mode: 'SaveWithMemory' } } as const;
  await client.create(images, anImage(namespace, 'saved', source));
  const status = await becomesReady(client, namespace, 'saved');
  expect(status).toMatchObject({
    size: '64Mi',
    format: 'qcow2',
    memory: {
      digest: status.digest,
      size: '192Mi',
      cpuModel: 'max',
      accelerator: 'tcg',
      qemu: expect.stringMatching(/^10\./),
      stoppedMs: expect.any(Number),
    },
  });
  expect((await runner.client.state()).powerState).toBe('Running');
  const pod = await aPod({ warm: true, readiness: { timeoutSeconds: 1 } }, '');
  await unpack(status.reference ?? '', pod.root + runnerPaths.image);
  const copy = await startRunner(pod);
  // Where nothing runs there is no agent either.
  await copy.reaches({
    powerState: 'Running',
    warmStart: { fromMemory: true, reason: 'IdentityShared', message: expect.any(String) },
  });

  // A copy has both layers, and nobody vouches for its memory.
  await client.create(images, anImage(namespace, 'copy', { image: { name: 'saved' } }));
  const copied = await becomesReady(client, namespace, 'copy');
  expect(copied).not.toHaveProperty('memory');
  const layersOf = async ({ reference = '' }: ImageStatus) =>
    (await resolveImage(store, parseReference(reference))).manifest.layers.map(({ digest }) => digest);
  expect(await layersOf(copied)).toEqual(await layersOf(status));

  // A disk alone from here on: the version with the memory is still the one that has it.
  const body = { spec: { commit: { vm: 'vm', request: 'one' } } };
  const effective = { imageName: 'saved' };
  const key = { namespace, name: 'vm' };
  await client.patch(vms, key, { type: 'merge', body: { status: { effective } } }, { subresource: 'status' });
  await client.patch(images, { name: 'saved', namespace }, { type: 'merge', body });
  await expect
    .poll(async () => (await client.get(images, 'saved', namespace)).status?.commitRequest, soon)
    .toBe('one');
  const committed = await becomesReady(client, namespace, 'saved');
  expect(committed.digest).not.toBe(status.digest);
  expect(committed.memory).toEqual(status.memory);
});

test('the memory of a VM that cannot be saved is refused for good, in the words of its field', async () => {
  const { client } = cluster;
  const { namespace } = await aRunningVm();
  const effective = { disks: [{ name: 'logs', size: '1Gi' }] };
  const key = { namespace, name: 'vm' };
  await client.patch(vms, key, { type: 'merge', body: { status: { effective } } }, { subresource: 'status' });
  await client.create(images, anImage(namespace, 'saved', { vm: { name: 'vm', mode: 'SaveWithMemory' } }));
  const ready = async () =>
    findCondition((await client.get(images, 'saved', namespace)).status?.conditions, 'Ready');
  await expect
    .poll(ready, soon)
    .toMatchObject({ reason: 'MemoryRefused', message: expect.stringContaining('disks: ') });
});
