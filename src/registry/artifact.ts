/** What we make ourselves and push: blobs in memory, and manifests and indexes that name them (OCI image specification 1.1). */
import { mediaTypes, type RegistryClient } from './client.ts';
import { sha256, type Descriptor } from './manifest.ts';

/** Something small with its name. */
export interface Blob {
  readonly bytes: Buffer;
  readonly descriptor: Descriptor;
}

/** A manifest or an index. */
export interface Artifact extends Blob {
  /** What it names that is not in the registry yet. */
  readonly blobs: readonly Blob[];
}

export function newBlob(mediaType: string, bytes: Buffer): Blob {
  return { bytes, descriptor: { mediaType, digest: sha256(bytes), size: bytes.length } };
}

export function jsonOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** A manifest of what lies in the registry already and of `blobs`. */
export function newArtifact(
  content: Readonly<Record<string, unknown>>,
  blobs: readonly Blob[],
  mediaType: string = mediaTypes.ociManifest,
): Artifact {
  return { ...newBlob(mediaType, jsonOf({ schemaVersion: 2, mediaType, ...content })), blobs };
}

/** Puts an artifact under its digest, or a tag; its blobs first, so that nothing is named that is not there. */
export async function pushArtifact(
  client: RegistryClient,
  repository: string,
  { blobs, bytes, descriptor }: Artifact,
  name: string = descriptor.digest,
): Promise<void> {
  for (const blob of blobs) await client.putBlob(repository, blob.bytes);
  await client.putManifest(repository, name, bytes, descriptor.mediaType);
}
