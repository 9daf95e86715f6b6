import { Svc3Error } from '../errors.ts';
import {
  mediaTypes,
  type Descriptor,
  type FetchedManifest,
  type Manifest,
  type RegistryClient,
} from './client.ts';
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

interface ImageConfig {
  architecture?: string;
  os?: string;
}

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
  options: { architecture?: string; signal?: AbortSignal } = {},
): Promise<ResolvedImage> {
  const abortable = options.signal === undefined ? {} : { signal: options.signal };
  const top = await client.manifest(reference.repository, manifestName(reference), abortable);
  const chosen = top.manifest.manifests === undefined ? top : await memberOf(client, reference, top, options);
  const { config, layers } = chosen.manifest;
  const name = `${reference.registry}/${reference.repository}`;
  if (config === undefined || layers === undefined)
    throw new Svc3Error('Invalid', `${name} is not an image: its manifest has no layers`);
  const { architecture } = await readConfig(client, reference.repository, config, abortable);
  return {
    digest: chosen.digest,
    architecture: architecture ?? 'amd64',
    mediaType: chosen.mediaType,
    manifest: { ...chosen.manifest, config, layers },
    annotations: chosen.manifest.annotations ?? {},
    size: layers.reduce((sum, layer) => sum + layer.size, 0),
  };
}

async function memberOf(
  client: RegistryClient,
  reference: ImageReference,
  index: FetchedManifest,
  options: { architecture?: string; signal?: AbortSignal },
): Promise<FetchedManifest> {
  const members = (index.manifest.manifests ?? []).filter((member) => member.platform?.os !== 'unknown');
  const wanted =
    options.architecture ?? (members.length === 1 ? members[0]?.platform?.architecture : 'amd64');
  const member =
    members.find((candidate) => candidate.platform?.architecture === wanted) ??
    (options.architecture === undefined ? members[0] : undefined);
  if (member === undefined) {
    const offered = members.map((candidate) => candidate.platform?.architecture ?? 'unknown').join(', ');
    throw new Svc3Error(
      'NotFound',
      `${reference.registry}/${reference.repository} has no image for ${wanted}, only for ${offered}`,
    );
  }
  return client.manifest(
    reference.repository,
    member.digest,
    options.signal === undefined ? {} : { signal: options.signal },
  );
}

async function readConfig(
  client: RegistryClient,
  repository: string,
  config: Descriptor,
  abortable: { signal?: AbortSignal },
): Promise<ImageConfig> {
  if (config.size > configLimitBytes)
    throw new Svc3Error(
      'Invalid',
      `the configuration of ${repository} is larger than ${configLimitBytes} bytes`,
    );
  const chunks: Buffer[] = [];
  for await (const chunk of await client.blob(repository, config.digest, abortable))
    chunks.push(chunk as Buffer);
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    return typeof parsed === 'object' && parsed !== null ? parsed : {};
  } catch (error) {
    throw new Svc3Error('Invalid', `the configuration of ${repository} is not JSON`, { cause: error });
  }
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

/** The manifest of an image with one layer, ready to be put. */
export function manifestOf(
  config: Descriptor,
  layer: Descriptor,
  annotations: Record<string, string>,
): Buffer {
  const manifest: Manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociManifest,
    config,
    layers: [layer],
    annotations,
  };
  return Buffer.from(JSON.stringify(manifest));
}
