import { expect, test } from 'vitest';
import { jsonOf, newArtifact, newBlob, pushArtifact } from '../../../src/registry/artifact.ts';
import { memoryRegistry } from './memoryregistry.ts';

const config = newBlob('application/vnd.oci.image.config.v1+json', jsonOf({ os: 'linux' }));
const artifact = newArtifact({ config: config.descriptor, layers: [] }, [config]);

test('its blobs are there before what names them', async () => {
  const client = memoryRegistry();
  const { putManifest } = client;
  client.putManifest = async (...manifest) => {
    expect([...client.blobs.keys()]).toEqual([config.descriptor.digest]);
    return putManifest(...manifest);
  };
  await pushArtifact(client, 'team/image', artifact, '1');
  expect(await client.digestOf('team/image', '1')).toBe(artifact.descriptor.digest);
});

test('without a tag it lies under its digest', async () => {
  const client = memoryRegistry();
  await pushArtifact(client, 'team/image', artifact);
  const { manifest, mediaType } = await client.manifest('team/image', artifact.descriptor.digest);
  expect(mediaType).toBe('application/vnd.oci.image.manifest.v1+json');
  expect(manifest.config).toEqual(config.descriptor);
});
