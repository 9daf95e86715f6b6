/** Small OCI images made in memory, and their way into a registry or a containerd. */
import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { Svc3Error } from '../../errors.ts';

export interface OciFile {
  readonly name: string;
  readonly content: Buffer;
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
}

interface Blob {
  readonly mediaType: string;
  readonly digest: string;
  readonly content: Buffer;
}

/** An image of one uncompressed layer. */
export interface OciImage {
  readonly config: Blob;
  readonly layer: Blob;
  readonly manifest: Blob;
}

export interface ImageOptions {
  readonly files: readonly OciFile[];
  readonly architecture: 'amd64' | 'arm64';
  readonly entrypoint?: readonly string[];
}

/** Same files, same digest: nothing in it depends on the time. */
export async function createImage(options: ImageOptions): Promise<OciImage> {
  const layer = blob('application/vnd.oci.image.layer.v1.tar', await tarOf(options.files));
  const config = blob(
    'application/vnd.oci.image.config.v1+json',
    json({
      architecture: options.architecture,
      os: 'linux',
      config: options.entrypoint === undefined ? {} : { Entrypoint: options.entrypoint },
      rootfs: { type: 'layers', diff_ids: [layer.digest] },
    }),
  );
  const manifest = blob(
    'application/vnd.oci.image.manifest.v1+json',
    json({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: descriptor(config),
      layers: [descriptor(layer)],
    }),
  );
  return { config, layer, manifest };
}

/** The image as an OCI archive that `ctr images import` reads, under a full reference. */
export async function archiveOf(image: OciImage, reference: string): Promise<Buffer> {
  const index = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [{ ...descriptor(image.manifest), annotations: { 'io.containerd.image.name': reference } }],
  };
  const file = (name: string, content: Buffer): OciFile => ({ name, content, mode: 0o644 });
  return tarOf([
    file('oci-layout', json({ imageLayoutVersion: '1.0.0' })),
    file('index.json', json(index)),
    ...[image.config, image.layer, image.manifest].map((part) =>
      file(`blobs/${part.digest.replace(':', '/')}`, part.content),
    ),
  ]);
}

export interface RegistryAddress {
  /** e.g. `http://127.0.0.1:5000`. */
  readonly url: string;
  readonly user: string;
  readonly password: string;
}

/** Pushes what the registry does not have. */
export async function pushImage(
  registry: RegistryAddress,
  repository: string,
  tag: string,
  image: OciImage,
): Promise<void> {
  for (const part of [image.layer, image.config]) await pushBlob(registry, repository, part);
  await ask(registry, 'PUT', `/v2/${repository}/manifests/${tag}`, image.manifest);
}

async function pushBlob(registry: RegistryAddress, repository: string, part: Blob): Promise<void> {
  const there = await ask(registry, 'HEAD', `/v2/${repository}/blobs/${part.digest}`);
  if (there.status === 200) return;
  const upload = await ask(registry, 'POST', `/v2/${repository}/blobs/uploads/`);
  const location = new URL(upload.headers.get('location') ?? '', registry.url);
  // The registry names itself as it is called inside; only the path is of use here.
  location.searchParams.set('digest', part.digest);
  const content = { ...part, mediaType: 'application/octet-stream' };
  await ask(registry, 'PUT', `${location.pathname}${location.search}`, content);
}

async function ask(
  registry: RegistryAddress,
  method: string,
  path: string,
  body?: { mediaType: string; content: Buffer },
): Promise<Response> {
  const basic = Buffer.from(`${registry.user}:${registry.password}`).toString('base64');
  const response = await fetch(new URL(path, registry.url), {
    method,
    headers: {
      authorization: `Basic ${basic}`,
      accept:
        'application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json',
      ...(body === undefined ? {} : { 'content-type': body.mediaType }),
    },
    ...(body === undefined ? {} : { body: new Uint8Array(body.content) }),
  });
  if (response.ok || (method === 'HEAD' && response.status === 404)) return response;
  const said = (await response.text()).slice(0, 300);
  throw new Svc3Error('BadGateway', `the registry answered ${response.status} to ${method} ${path}: ${said}`);
}

async function tarOf(files: readonly OciFile[]): Promise<Buffer> {
  const tar = pack();
  const folders = new Set(files.flatMap((file) => parents(file.name)));
  const mtime = new Date(0);
  for (const name of [...folders].sort()) tar.entry({ name, type: 'directory', mode: 0o755, mtime });
  for (const { name, content, mode, uid = 0, gid = 0 } of files)
    tar.entry({ name, mode, uid, gid, mtime, size: content.length }, content);
  tar.finalize();
  return buffer(tar);
}

function parents(name: string): string[] {
  const parts = name.split('/').slice(0, -1);
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'));
}

function blob(mediaType: string, content: Buffer): Blob {
  return { mediaType, content, digest: `sha256:${createHash('sha256').update(content).digest('hex')}` };
}

function descriptor(part: Blob): { mediaType: string; digest: string; size: number } {
  return { mediaType: part.mediaType, digest: part.digest, size: part.content.length };
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Whether the registry has an image of this name. */
export async function hasManifest(
  registry: RegistryAddress,
  repository: string,
  tag: string,
): Promise<boolean> {
  return (await digestOf(registry, repository, tag)) !== undefined;
}

/** Whether the registry has an image under all of these tags, and the same under each. */
export async function hasTags(
  registry: RegistryAddress,
  repository: string,
  tags: readonly string[],
): Promise<boolean> {
  const digests = new Set(await Promise.all(tags.map((tag) => digestOf(registry, repository, tag))));
  return digests.size === 1 && !digests.has(undefined);
}

async function digestOf(
  registry: RegistryAddress,
  repository: string,
  tag: string,
): Promise<string | undefined> {
  const { status, headers } = await ask(registry, 'HEAD', `/v2/${repository}/manifests/${tag}`);
  // A registry that does not say it has another image under each tag, as far as we know.
  return status === 200 ? (headers.get('docker-content-digest') ?? tag) : undefined;
}
