/** The images of a release with the documents about them, on disk: nothing here talks to a registry of containers. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type ImageName, layOutContexts } from '../localcluster/images/images.ts';
import { mediaTypes } from '../registry/client.ts';
import { type Artifact, newArtifact } from '../registry/artifact.ts';
import { type Referrer, referrerOf } from './referrer.ts';
import { type DebianLayer, type PlatformImage, debianLayer, platformImage } from './image.ts';
import { nodeFor } from './node.ts';
import { inTotoType, provenanceOf } from './provenance.ts';
import { type Architecture, type Recipe, architectures, readRecipe } from './recipe.ts';
import { sbomOf, spdxType } from './sbom.ts';
import type { Source } from './source.ts';

export interface Build {
  /** Root of the checkout. */
  readonly root: string;
  /** A folder that is the build's alone; what is pushed lies in it. */
  readonly work: string;
  readonly cache: string;
  readonly signal: AbortSignal;
  progress(text: string): void;
  /** Packs the Debian packages; default: {@link debianLayer}. */
  readonly debian?: (
    work: string,
    recipe: Recipe,
    architecture: Architecture,
    signal: AbortSignal,
  ) => Promise<DebianLayer>;
}

export interface IndexedImage {
  /** Its repository in a registry. */
  readonly name: string;
  readonly platforms: readonly PlatformImage[];
  readonly index: Artifact;
  /** An SBOM for each platform, the provenance for the index. */
  readonly referrers: readonly Referrer[];
}

export type Images = Readonly<Record<ImageName, IndexedImage>>;

/** Builds both images for all architectures. Needs root. */
export async function buildImages(source: Source, build: Build): Promise<Images> {
  const contexts = join(build.work, 'contexts');
  build.progress('bundling');
  await layOutContexts(contexts, build);
  return {
    svc3: await buildImage('svc3', 'svc3', { contexts, source, build }),
    runner: await buildImage('runner', 'svc3-runner', { contexts, source, build }),
  };
}

interface Parts {
  readonly contexts: string;
  readonly source: Source;
  readonly build: Build;
}

async function buildImage(image: ImageName, name: string, parts: Parts): Promise<IndexedImage> {
  const platforms: PlatformImage[] = [];
  for (const architecture of architectures) {
    parts.build.progress(`the image ${name} for linux/${architecture}`);
    platforms.push(await buildPlatform(image, architecture, parts));
  }
  return indexed(name, platforms, parts.source);
}

async function buildPlatform(
  image: ImageName,
  architecture: Architecture,
  { contexts, source, build }: Parts,
): Promise<PlatformImage> {
  const { signal } = build;
  const work = join(build.work, `${image}-${architecture}`);
  const context = join(contexts, image);
  const recipe = readRecipe(await readFile(join(context, 'Containerfile'), 'utf8'), architecture);
  const node = await nodeFor(architecture, source.node, build);
  const debian = await (build.debian ?? debianLayer)(work, recipe, architecture, signal);
  return platformImage(work, { recipe, architecture, context, node, debian }, { source, signal });
}

function indexed(name: string, platforms: readonly PlatformImage[], source: Source): IndexedImage {
  const manifests = platforms.map(({ architecture, manifest }) => ({
    ...manifest.descriptor,
    platform: { architecture, os: 'linux' },
  }));
  const annotations = {
    'org.opencontainers.image.version': source.version,
    'org.opencontainers.image.created': source.created,
    ...(source.commit === undefined ? {} : { 'org.opencontainers.image.revision': source.commit }),
  };
  const index = newArtifact({ manifests, annotations }, [], mediaTypes.ociIndex);
  return { name, platforms, index, referrers: referrersOf(name, { platforms, index }, source) };
}

function referrersOf(
  name: string,
  { platforms, index }: Pick<IndexedImage, 'platforms' | 'index'>,
  source: Source,
): Referrer[] {
  const { created } = source;
  const sboms = platforms.map(({ manifest: { descriptor }, packages }) => {
    const value = sbomOf({ name, digest: descriptor.digest }, source, packages);
    return referrerOf(descriptor, { type: spdxType, value, created });
  });
  const subjects = [index, ...platforms.map(({ manifest }) => manifest)].map(({ descriptor }) => descriptor);
  const packages = platforms.flatMap((platform) => platform.packages);
  const value = provenanceOf(name, subjects, source, packages);
  return [...sboms, referrerOf(index.descriptor, { type: inTotoType, value, created })];
}
