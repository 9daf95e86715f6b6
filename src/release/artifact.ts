/** What a release puts into a registry: blobs, manifests and indexes of them (OCI image specification 1.1). */
import type { Descriptor } from '../registry/manifest.ts';
import { mediaTypes } from '../registry/client.ts';
import { sha256 } from '../registry/manifest.ts';

/** Something small with its name. */
export interface Blob {
  readonly bytes: Buffer;
  readonly descriptor: Descriptor;
}

export interface Manifest {
  readonly blobs: readonly Blob[];
  readonly bytes: Buffer;
  readonly descriptor: Descriptor;
}

export function blobOf(mediaType: string, bytes: Buffer): Blob {
  return { bytes, descriptor: { mediaType, digest: sha256(bytes), size: bytes.length } };
}

export function jsonOf(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** A manifest of what lies in the registry already and of `blobs`. */
export function manifestOf(
  content: Readonly<Record<string, unknown>>,
  blobs: readonly Blob[],
  mediaType: string = mediaTypes.ociManifest,
): Manifest {
  const { bytes, descriptor } = blobOf(mediaType, jsonOf({ schemaVersion: 2, mediaType, ...content }));
  return { blobs, bytes, descriptor };
}

/** The configuration of what is no image: an empty object. */
const empty = blobOf('application/vnd.oci.empty.v1+json', Buffer.from('{}'));

/** A document about a manifest. */
export interface Referrer extends Manifest {
  readonly subject: Descriptor;
}

/** Registries list it as a referrer of its subject. */
export function referrerOf(
  subject: Descriptor,
  document: { type: string; value: unknown; created: string },
): Referrer {
  const blob = blobOf(document.type, jsonOf(document.value));
  const { mediaType, digest, size } = subject;
  const manifest = manifestOf(
    {
      artifactType: document.type,
      config: empty.descriptor,
      layers: [blob.descriptor],
      subject: { mediaType, digest, size },
      annotations: { 'org.opencontainers.image.created': document.created },
    },
    [empty, blob],
  );
  return { ...manifest, descriptor: { ...manifest.descriptor, artifactType: document.type }, subject };
}
