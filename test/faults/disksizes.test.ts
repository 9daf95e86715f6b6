/**
 * A Persistent disk had a claim of 22Gi for an image of 69 MiB, and a size below the image's was accepted and not what the
 * guest got.
 */
import { gzipSync } from 'node:zlib';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { persistentVolumeClaims, registryCredentials, secrets } from '../../src/api/resources.ts';
import { createImageResolver } from '../../src/controllers/vm/resolve/imageresolver.ts';
import { createRegistryClient } from '../../src/registry/client.ts';
import { pushDisk } from '../../src/registry/disk.ts';
import { manifestOf } from '../../src/registry/image.ts';
import { aQcow2 } from '../integration/image/harness.ts';
import { slow, type VmNamespace, type VmWorld, vmWorld } from '../integration/vm/harness.ts';
import { startTestApi, type TestApi } from '../support/api.ts';
import { bindClaim } from '../support/claims.ts';
import { startVmOperator, type TestOperator } from '../support/operator.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';

let world: VmWorld;
let space: VmNamespace;
let operator: TestOperator;
let registry: TestRegistry;
let api: TestApi;

beforeAll(async () => {
  [world, registry] = await Promise.all([vmWorld(), startRegistry()]);
  space = await world.namespace('sizes');
  await world.namespace('svc3-credentials');
  await world.kubelet.addNode({ name: 'n1' });
  await Promise.all([pushPlain(), pushCompressed(), pushRaw()]);
  operator = await startVmOperator(world.client, {}, (informers) => ({
    resolver: createImageResolver({
      credentials: informers.get(registryCredentials),
      basicAuth: informers.get(secrets, { namespace: 'svc3-credentials' }),
      storeUrl: `http://${registry.address}`,
    }),
  }));
  api = await startTestApi(world.client);
});

afterAll(async () => {
  await api?.close();
  await operator?.stop();
  await registry?.stop();
  await world?.stop();
});

const open = () => createRegistryClient({ registry: registry.address, scheme: 'http' });

async function push(repository: string, fileName: string, content: Buffer): Promise<void> {
  const client = open();
  const disk = { repository, tag: '1', architecture: 'amd64', fileName, size: content.length };
  await pushDisk(client, { ...disk, content: Readable.from([content]) });
  await client.close();
}

/** As svc3 stores disks. */
const pushPlain = async () => push('disks/plain', 'disk.qcow2', await aQcow2({ size: '300M' }));
const pushRaw = () => push('disks/raw', 'disk.img', Buffer.alloc(3 * 2 ** 20));

/** As container engines build images: in a layer that is compressed. */
async function pushCompressed(): Promise<void> {
  const tar = pack();
  tar.entry({ name: 'disk/vm.qcow2' }, await aQcow2({ size: '2G' }));
  tar.finalize();
  const layer = gzipSync(await buffer(tar));
  const config = Buffer.from(
    JSON.stringify({ architecture: 'amd64', os: 'linux', rootfs: { type: 'layers' } }),
  );
  const client = open();
  const [layerDigest, configDigest] = [
    await client.putBlob('disks/compressed', layer),
    await client.putBlob('disks/compressed', config),
  ];
  const mediaType = 'application/vnd.oci.image.';
  const manifest = manifestOf(
    { mediaType: `${mediaType}config.v1+json`, digest: configDigest, size: config.length },
    [{ mediaType: `${mediaType}layer.v1.tar+gzip`, digest: layerDigest, size: layer.length }],
    {},
  );
  await client.putManifest('disks/compressed', '1', manifest, `${mediaType}manifest.v1+json`);
  await client.close();
}

const imageOf = (name: string) => `${registry.address}/disks/${name}:1`;

async function claimed(vm: string): Promise<string | undefined> {
  const claim = world.client.get(persistentVolumeClaims, `svc3-vm-${vm}`, space.name);
  return claim.then(
    ({ spec }) => spec?.resources?.requests?.['storage'],
    () => undefined,
  );
}

describe('a Persistent disk that nobody gives a size', () => {
  test.each([
    ['plain', '300Mi', '364Mi'],
    ['compressed', '2Gi', '2253Mi'],
    ['raw', '3Mi', '67Mi'],
  ])('has that of its image, and a claim with some room for tables: %s', async (image, size, claim) => {
    await space.deploy(image, { image: imageOf(image), disk: { storage: 'Persistent' } });
    await expect.poll(() => claimed(image), slow).toBe(claim);
    await bindClaim(world.client, space.name, `svc3-vm-${image}`);
    await expect.poll(async () => (await space.vm(image)).status?.effective?.disk?.size, slow).toBe(size);
  });
});

describe('a size below that of the image is refused', () => {
  test.each(['Persistent', 'Ephemeral'] as const)('of a VM made with kubectl: %s', async (storage) => {
    const name = `small-${storage.toLowerCase()}`;
    await space.deploy(name, { image: imageOf('plain'), disk: { storage, size: '200Mi' } });
    await space.until(name, 'Stalled', {
      status: 'True',
      reason: 'InvalidSpec',
      message: 'disk.size: 200Mi is less than the disk of the image has (300Mi)',
    });
    expect([await claimed(name), await space.pod(name)]).toEqual([undefined, undefined]);
  });

  test('of a deploy, which names the field and leaves no VM', async () => {
    const { status, text } = await api.call('POST', `/api/v1/namespaces/${space.name}/vms`, {
      token: world.controlPlane.adminToken,
      body: { name: 'small', image: imageOf('plain'), disk: { size: '200Mi' } },
    });
    expect([status, text]).toEqual([422, expect.stringContaining('"field":"disk.size"')]);
    await expect.poll(() => space.isThere('small'), slow).toBe(false);
  });
});
