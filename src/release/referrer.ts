/** Documents about what a release puts into a registry, as referrers of it (OCI image specification 1.1). */
import { type Artifact, jsonOf, newArtifact, newBlob } from '../registry/artifact.ts';
import type { Descriptor } from '../registry/manifest.ts';

/** The configuration of what is no image: an empty object. */
const empty = newBlob('application/vnd.oci.empty.v1+json', Buffer.from('{}'));

/** A document about a manifest. */
export interface Referrer extends Artifact {
  readonly subject: Descriptor;
}

/** Registries list it as a referrer of its subject. */
export function referrerOf(
  subject: Descriptor,
  document: { type: string; value: unknown; created: string },
): Referrer {
  const blob = newBlob(document.type, jsonOf(document.value));
  const { mediaType, digest, size } = subject;
  const manifest = newArtifact(
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
