/** A release's way into a registry: blobs first, then what names them, tags last. An interrupted one leaves nothing under a tag. */
import { createReadStream } from 'node:fs';
import { Svc3Error } from '../errors.ts';
import { jsonOf, pushArtifact } from '../registry/artifact.ts';
import { mediaTypes, type RegistryClient } from '../registry/client.ts';
import type { Descriptor } from '../registry/manifest.ts';
import type { Layer } from './layer.ts';
import type { Referrer } from './referrer.ts';

/** @throws Conflict where the tag stands for something else. */
export async function checkTag(
  client: RegistryClient,
  repository: string,
  tag: string,
  digest: string,
): Promise<void> {
  const there = await client.digestOf(repository, tag);
  if (there === undefined || there === digest) return;
  throw new Svc3Error(
    'Conflict',
    `${client.registry}/${repository}:${tag} is ${there}, and this release is ${digest}: release another version, or say --overwrite`,
  );
}

export async function pushLayer(
  client: RegistryClient,
  repository: string,
  { file, descriptor }: Layer,
): Promise<void> {
  if ((await client.blobSize(repository, descriptor.digest)) !== undefined) return;
  const upload = await client.upload(repository);
  await upload.append(createReadStream(file), { contentLength: descriptor.size });
  await upload.finish(descriptor.digest);
}

/**
 * Pushes documents about one manifest. Where the registry has no referrers API, clients find them in an index under the tag `sha256-…`
 * (distribution specification 1.1, "Referrers Tag Schema"); what others have put there stays.
 */
export async function pushReferrers(
  client: RegistryClient,
  repository: string,
  referrers: readonly Referrer[],
): Promise<void> {
  const [first] = referrers;
  if (first === undefined) return;
  for (const referrer of referrers) await pushArtifact(client, repository, referrer);
  const { digest } = first.subject;
  if ((await client.referrers(repository, digest)) !== undefined) return;
  const tag = digest.replace(':', '-');
  const ours = referrers.map(({ descriptor }) => descriptor);
  const present = await membersOf(client, repository, tag);
  const others = present.filter((other) => !ours.some((each) => each.digest === other.digest));
  const manifests = [...others, ...ours];
  const index = jsonOf({ schemaVersion: 2, mediaType: mediaTypes.ociIndex, manifests });
  await client.putManifest(repository, tag, index, mediaTypes.ociIndex);
}

async function membersOf(client: RegistryClient, repository: string, tag: string): Promise<Descriptor[]> {
  if ((await client.digestOf(repository, tag)) === undefined) return [];
  return (await client.manifest(repository, tag)).manifest.manifests ?? [];
}
