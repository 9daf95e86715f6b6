/** The chart as an OCI artifact, as `helm pull` and `helm install` take it. Its Chart.yaml names the images of the release by digest. */
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { parse, parseDocument } from 'yaml';
import { type Artifact, jsonOf, newArtifact, newBlob } from '../registry/artifact.ts';
import type { Source } from './source.ts';

/** Where an image lies for those who pull it. */
export interface ReleasedImage {
  readonly repository: string;
  readonly digest: string;
}

export async function chartManifest(
  folder: string,
  images: { svc3: ReleasedImage; runner: ReleasedImage },
  source: Source,
): Promise<Artifact> {
  const files = await chartFiles(folder);
  const description = releasedDescription(files.get('Chart.yaml')?.toString() ?? '', images, source.version);
  files.set('Chart.yaml', Buffer.from(description));
  const config = newBlob('application/vnd.cncf.helm.config.v1+json', jsonOf(parse(description)));
  const content = newBlob('application/vnd.cncf.helm.chart.content.v1.tar+gzip', await archiveOf(files));
  return newArtifact(
    {
      config: config.descriptor,
      layers: [content.descriptor],
      annotations: {
        'org.opencontainers.image.title': 'svc3',
        'org.opencontainers.image.version': source.version,
        'org.opencontainers.image.created': source.created,
        ...(source.commit === undefined ? {} : { 'org.opencontainers.image.revision': source.commit }),
      },
    },
    [config, content],
  );
}

/**
 * Chart.yaml with the annotations that name the images (svc3.imageOf in the chart's templates); a tag with a digest is pulled by the digest.
 * Default values would be no place for them: `helm upgrade --reuse-values` keeps those of the chart before.
 */
export function releasedDescription(
  description: string,
  { svc3, runner }: { svc3: ReleasedImage; runner: ReleasedImage },
  version: string,
): string {
  const document = parseDocument(description);
  for (const [key, image] of [
    ['image', svc3],
    ['runner-image', runner],
  ] as const) {
    document.setIn(['annotations', `svc3.dev/${key}-repository`], image.repository);
    document.setIn(['annotations', `svc3.dev/${key}-tag`], `${version}@${image.digest}`);
  }
  return document.toString({ lineWidth: 0 });
}

/** By path below the chart, sorted; without what .helmignore names. */
async function chartFiles(folder: string): Promise<Map<string, Buffer>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() && !/\.(?:tmp|orig)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted();
  return new Map(
    await Promise.all(paths.map(async (path) => [path, await readFile(join(folder, path))] as const)),
  );
}

/** Helm wants all files below a folder of the chart's name, and Chart.yaml at the front of them. */
async function archiveOf(files: ReadonlyMap<string, Buffer>): Promise<Buffer> {
  const tar = pack();
  const paths = [...files.keys()].toSorted((a, b) => Number(b === 'Chart.yaml') - Number(a === 'Chart.yaml'));
  for (const path of paths)
    tar.entry({ name: `svc3/${path}`, mode: 0o644, mtime: new Date(0) }, files.get(path) ?? Buffer.of());
  tar.finalize();
  return gzipSync(await buffer(tar), { level: 9 });
}
