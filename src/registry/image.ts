import { Svc3Error } from '../errors.ts';
import { parseForeignJson } from '../net/foreign.ts';
import { newArtifact } from './artifact.ts';
import { readBlob } from './blob.ts';
import type { FetchedManifest, RegistryClient } from './client.ts';
import { sizeOf, type Descriptor, type Manifest } from './manifest.ts';
import { manifestName, type ImageReference } from './reference.ts';

/** An image for one architecture, as it lies in a registry now. */
export interface ResolvedImage {
  /** Digest of the manifest of the architecture; what a VM is pinned to. */
  readonly digest: string;
  readonly architecture: string;
  readonly mediaType: string;
  readonly manifest: Manifest & { config: Descriptor; layers: Descriptor[] };
  readonly annotations: Readonly<Record<string, string>>;
  /** Bytes of all layers, as they are stored. */
  readonly size: number;
}

/** Far above an image with thousands of layers; the operator holds one for each image that it asks for. */
const configLimitBytes = 1024 * 1024;

/**
 * Finds the image under a tag or digest, for `architecture` (amd64, arm64) where an index offers several; without one, the
 * index's only member, else amd64.
 *
 * @throws NotFound when it is not there or not there for the architecture; Invalid when it is no image.
 */
export async function resolveImage(
  client: RegistryClient,
  reference: ImageReference,
  options: { architecture?: string | undefined; signal?: AbortSignal } = {},
): Promise<ResolvedImage> {
  const abortable = options.signal === undefined ? {} : { signal: options.signal };
  const top = await client.manifest(reference.repository, manifestName(reference), abortable);
  const chosen = top.manifest.manifests === undefined ? top : await memberOf(client, reference, top, options);
  const { config, layers } = chosen.manifest;
  const name = `${reference.registry}/${reference.repository}`;
  if (config === undefined || layers === undefined)
    throw new Svc3Error('Invalid', `${name} is not an image: its manifest has no layers`);
  const architecture = await readArchitecture(client, reference.repository, config, abortable);
  return {
    digest: chosen.digest,
    architecture: architecture ?? 'amd64',
    mediaType: chosen.mediaType,
    manifest: { ...chosen.manifest, config, layers },
    annotations: chosen.manifest.annotations ?? {},
    size: sizeOf(layers, name),
  };
}

async function memberOf(
  client: RegistryClient,
  reference: ImageReference,
  index: FetchedManifest,
  options: { architecture?: string | undefined; signal?: AbortSignal },
): Promise<FetchedManifest> {
  const members = (index.manifest.manifests ?? []).filter((member) => member.platform?.os !== 'unknown');
  const wanted =
    options.architecture ?? (members.length === 1 ? members[0]?.platform?.architecture : 'amd64');
  const member =
    members.find((candidate) => candidate.platform?.architecture === wanted) ??
    (options.architecture === undefined || members.every(isUnnamed) ? members[0] : undefined);
  if (member === undefined) {
    const architectures = members.map((candidate) => candidate.platform?.architecture || 'unknown');
    const offered = [...new Set(architectures)].slice(0, 8).join(', ');
    throw new Svc3Error(
      'NotFound',
      `${reference.registry}/${reference.repository} has no image for ${wanted}, only for ${offered}`,
    );
  }
  return client.manifest(reference.repository, member.digest, {
    size: member.size,
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** Of an index that says nothing of architectures the images themselves do. */
function isUnnamed({ platform }: Descriptor): boolean {
  return platform?.architecture === undefined;
}

/** What the image's configuration says; undefined where it says nothing. */
async function readArchitecture(
  client: RegistryClient,
  repository: string,
  config: Descriptor,
  abortable: { signal?: AbortSignal },
): Promise<string | undefined> {
  const what = `the configuration of ${repository}`;
  const limits = { limitBytes: configLimitBytes, what, ...abortable };
  const bytes = await readBlob(client, repository, config, limits);
  let parsed: unknown;
  try {
    parsed = parseForeignJson(bytes);
  } catch (error) {
    throw new Svc3Error('Invalid', `${what} is not JSON`, { cause: error });
  }
  const architecture = (parsed as { architecture?: unknown } | null)?.architecture ?? '';
  if (architecture === '') return undefined;
  if (typeof architecture === 'string' && /^[\w.-]{1,64}$/.test(architecture)) return architecture;
  throw new Svc3Error('Invalid', `${what} names an architecture that is none`);
}

/**
 * Makes an image of one repository the image of another in the same registry, under `tag`. Blobs are mounted, so that no
 * byte moves.
 *
 * @throws NotImplemented when the registry does not mount: the caller says whether bytes are to move.
 */
export async function copyImage(
  client: RegistryClient,
  image: ResolvedImage,
  from: string,
  to: { repository: string; tag: string; annotations?: Record<string, string>; signal?: AbortSignal },
): Promise<string> {
  const abortable = to.signal === undefined ? {} : { signal: to.signal };
  for (const blob of [image.manifest.config, ...image.manifest.layers]) {
    const there = (await client.blobSize(to.repository, blob.digest, abortable)) !== undefined;
    if (there || (await client.mountBlob(to.repository, blob.digest, from, abortable))) continue;
    throw new Svc3Error(
      'NotImplemented',
      `registry ${client.registry} does not mount blobs of ${from} into ${to.repository}`,
    );
  }
  const manifest: Manifest = {
    ...image.manifest,
    annotations: { ...image.manifest.annotations, ...to.annotations },
  };
  const bytes = Buffer.from(JSON.stringify(manifest));
  return client.putManifest(to.repository, to.tag, bytes, image.mediaType, abortable);
}

/** The manifest of an image, ready to be put. */
export function manifestOf(
  config: Descriptor,
  layers: readonly Descriptor[],
  annotations: Record<string, string>,
): Buffer {
  return newArtifact({ config, layers, annotations }, []).bytes;
}
