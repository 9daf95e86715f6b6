/** Small OCI images made in memory, and their way into a containerd. Into a registry they go by `pushArtifact`. */
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { type Artifact, jsonOf, newArtifact, newBlob } from '../../registry/artifact.ts';
import { mediaTypes } from '../../registry/client.ts';

export interface OciFile {
  readonly name: string;
  readonly content: Buffer;
  readonly mode: number;
  readonly uid?: number;
  readonly gid?: number;
}

export interface ImageOptions {
  readonly files: readonly OciFile[];
  readonly architecture: 'amd64' | 'arm64';
  readonly entrypoint?: readonly string[];
}

/** An image of one uncompressed layer. Same files, same digest: nothing in it depends on the time. */
export async function createImage(options: ImageOptions): Promise<Artifact> {
  const layer = newBlob(mediaTypes.ociLayer, await tarOf(options.files));
  const config = newBlob(
    mediaTypes.ociConfig,
    jsonOf({
      architecture: options.architecture,
      os: 'linux',
      config: options.entrypoint === undefined ? {} : { Entrypoint: options.entrypoint },
      rootfs: { type: 'layers', diff_ids: [layer.descriptor.digest] },
    }),
  );
  return newArtifact({ config: config.descriptor, layers: [layer.descriptor] }, [layer, config]);
}

/** The image as an OCI archive that `ctr images import` reads, under a full reference. */
export async function archiveOf(image: Artifact, reference: string): Promise<Buffer> {
  const index = {
    schemaVersion: 2,
    mediaType: mediaTypes.ociIndex,
    manifests: [{ ...image.descriptor, annotations: { 'io.containerd.image.name': reference } }],
  };
  const file = (name: string, content: Buffer): OciFile => ({ name, content, mode: 0o644 });
  return tarOf([
    file('oci-layout', jsonOf({ imageLayoutVersion: '1.0.0' })),
    file('index.json', jsonOf(index)),
    ...[...image.blobs, image].map(({ bytes, descriptor }) =>
      file(`blobs/${descriptor.digest.replace(':', '/')}`, bytes),
    ),
  ]);
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
