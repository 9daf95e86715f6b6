/** One image of a release for one architecture: Debian packages below, Node and what it runs on top. */
import { cp, mkdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type DebianPackage, unpackDebian } from './debian.ts';
import { type Layer, packLayer, readableByAll } from './layer.ts';
import type { Architecture, ContainerSettings, Copy, Recipe } from './recipe.ts';
import { type Artifact, jsonOf, newArtifact, newBlob } from '../registry/artifact.ts';
import { mediaTypes } from '../registry/client.ts';
import type { Source } from './source.ts';

export interface DebianLayer {
  readonly layer: Layer;
  readonly packages: readonly DebianPackage[];
}

export interface PlatformImage {
  readonly architecture: Architecture;
  /** The lowest first. */
  readonly layers: readonly Layer[];
  readonly packages: readonly DebianPackage[];
  readonly manifest: Artifact;
}

/** Packs the Debian packages of an image in `work`, a folder of its own. */
export async function debianLayer(
  work: string,
  recipe: Recipe,
  architecture: Architecture,
  signal: AbortSignal,
): Promise<DebianLayer> {
  const { root, packages } = await unpackDebian(work, { ...recipe, architecture }, signal);
  const layer = await packLayer(root, join(work, 'debian.tar.gz'), { signal });
  await rm(root, { recursive: true, force: true });
  return { layer, packages };
}

/** Puts an image together in `work`; `context` is what a container engine would build it from, with Node for this architecture. */
export async function platformImage(
  work: string,
  made: { recipe: Recipe; architecture: Architecture; context: string; node: string; debian: DebianLayer },
  { source, signal }: { source: Source; signal: AbortSignal },
): Promise<PlatformImage> {
  const { architecture, recipe, debian } = made;
  const root = join(work, 'app');
  for (const copy of recipe.copies) await copyInto(root, copy, made);
  const app = await packLayer(root, join(work, 'app.tar.gz'), { signal, mode: readableByAll });
  await rm(root, { recursive: true, force: true });
  const layers = [debian.layer, app];
  const manifest = imageManifest({ architecture, layers, settings: recipe.settings }, source);
  return { architecture, layers, packages: debian.packages, manifest };
}

async function copyInto(
  root: string,
  { from, to }: Copy,
  { context, node }: { context: string; node: string },
): Promise<void> {
  for (const name of from) {
    const target = join(root, to.endsWith('/') ? join(to, basename(name)) : to);
    await mkdir(dirname(target), { recursive: true });
    await cp(name === 'node' ? node : join(context, name), target, { recursive: true });
  }
}

function imageManifest(
  image: { architecture: Architecture; layers: readonly Layer[]; settings: ContainerSettings },
  source: Source,
): Artifact {
  const config = newBlob(
    mediaTypes.ociConfig,
    jsonOf({
      created: source.created,
      architecture: image.architecture,
      os: 'linux',
      config: image.settings,
      rootfs: { type: 'layers', diff_ids: image.layers.map(({ diffId }) => diffId) },
    }),
  );
  return newArtifact(
    { config: config.descriptor, layers: image.layers.map(({ descriptor }) => descriptor) },
    [config],
  );
}
