/** `npm run release`: images and chart of this checkout as OCI artifacts in a registry. */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Svc3Error } from '../errors.ts';
import { isRoot } from '../localcluster/host/privilege.ts';
import { pushArtifact } from '../registry/artifact.ts';
import { type RegistryClient, createRegistryClient } from '../registry/client.ts';
import { loginFor } from '../registry/login.ts';
import { parseReference } from '../registry/reference.ts';
import { type Build, type Images, type IndexedImage, buildImages } from './build.ts';
import { chartManifest } from './chart.ts';
import { checkTag, pushLayer, pushReferrers } from './push.ts';
import { type Source, readSource } from './source.ts';

export interface ReleaseOptions extends Omit<Build, 'work'> {
  /** `host[:port][/path]`: what is released lies below it. */
  readonly registry: string;
  /** What clusters call it; default: the same. */
  readonly pullFrom?: string;
  /** Plain HTTP. */
  readonly insecure?: boolean;
  /** Give a tag that stands for something else to this release. */
  readonly overwrite?: boolean;
  /** Release changes that are not committed. */
  readonly dirty?: boolean;
  /** Text of a docker configuration with the registry's login. */
  readonly dockerConfig?: string;
}

/** References with tag and digest, as those who install it name them. */
export interface Released {
  readonly svc3: string;
  readonly runner: string;
  readonly chart: string;
}

/**
 * Builds and pushes. The same commit, lockfile and Debian packages give the same digests.
 *
 * @throws Invalid naming the registry; Conflict where the checkout is not clean or a tag is taken; the registry's refusals.
 */
export async function release(options: ReleaseOptions): Promise<Released> {
  const target = targetOf(options.registry);
  if (!isRoot())
    throw new Svc3Error('Forbidden', 'unpacking the files of Debian packages needs root: run this as root');
  const source = await readSource(options.root, { dirty: options.dirty === true });
  const client = clientOf(target.registry, options);
  const work = join(options.cache, 'release', `build.${process.pid}`);
  await mkdir(work, { recursive: true });
  try {
    await client.login({ signal: options.signal });
    const images = await buildImages(source, { ...options, work });
    return await publish(images, { client, source, path: target.path, options });
  } finally {
    await client.close();
    await rm(work, { recursive: true, force: true });
  }
}

/** Registry and the path of repositories in it, '' or ending with a slash. */
export function targetOf(registry: string): { registry: string; path: string } {
  const sample = parseReference(`${registry}/svc3`, 'registry');
  if (sample.registry === 'docker.io' && !registry.startsWith('docker.io'))
    throw new Svc3Error('Invalid', `registry: "${registry}" is no host name with an optional port and path`);
  return { registry: sample.registry, path: sample.repository.slice(0, -'svc3'.length) };
}

function clientOf(registry: string, { insecure, dockerConfig }: ReleaseOptions): RegistryClient {
  const credentials = dockerConfig === undefined ? undefined : loginFor(dockerConfig, registry);
  const scheme = insecure === true ? 'http' : 'https';
  return createRegistryClient({ registry, scheme, ...(credentials === undefined ? {} : { credentials }) });
}

interface Publication {
  readonly client: RegistryClient;
  readonly source: Source;
  readonly path: string;
  readonly options: ReleaseOptions;
}

/** The chart last: who finds it finds its images. */
async function publish(images: Images, publication: Publication): Promise<Released> {
  const { client, source, path, options } = publication;
  const place = options.pullFrom ?? options.registry;
  const released = ({ name, index }: IndexedImage) => ({
    repository: `${place}/${name}`,
    digest: index.descriptor.digest,
  });
  const named = { svc3: released(images.svc3), runner: released(images.runner) };
  const chart = await chartManifest(join(options.root, 'charts/svc3'), named, source);
  const tagged = [
    ...Object.values(images).map(({ name, index }) => ({ name, manifest: index })),
    { name: 'charts/svc3', manifest: chart },
  ];
  for (const { name, manifest } of options.overwrite === true ? [] : tagged)
    await checkTag(client, `${path}${name}`, source.version, manifest.descriptor.digest);
  for (const image of Object.values(images)) await pushImage(image, publication);
  for (const { name, manifest } of tagged)
    await pushArtifact(client, `${path}${name}`, manifest, source.version);
  const reference = (repository: string, digest: string) => `${repository}:${source.version}@${digest}`;
  return {
    svc3: reference(named.svc3.repository, named.svc3.digest),
    runner: reference(named.runner.repository, named.runner.digest),
    chart: reference(`${place}/charts/svc3`, chart.descriptor.digest),
  };
}

/** With all documents about it, but without a tag. */
async function pushImage(
  { name, platforms, index, referrers }: IndexedImage,
  { client, path, options }: Publication,
): Promise<void> {
  const repository = `${path}${name}`;
  options.progress(`pushing ${client.registry}/${repository}`);
  for (const { layers, manifest } of platforms) {
    for (const layer of layers) await pushLayer(client, repository, layer);
    await pushArtifact(client, repository, manifest);
  }
  await pushArtifact(client, repository, index);
  const bySubject = Map.groupBy(referrers, ({ subject }) => subject.digest);
  for (const group of bySubject.values()) await pushReferrers(client, repository, group);
}
