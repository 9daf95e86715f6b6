import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { mediaTypes, createRegistryClient, type RegistryClient } from '../../src/registry/client.ts';
import { locateDisk, pushDisk } from '../../src/registry/disk.ts';
import { copyImage, manifestOf, resolveImage } from '../../src/registry/image.ts';
import { parseReference } from '../../src/registry/reference.ts';
import type { WorkSpec } from '../../src/api/worker.ts';
import { workerProcess } from '../../src/controllers/image/workerpod.ts';
import { startRegistry, type TestRegistry } from '../support/registry.ts';
import { startTransferBench } from './imagethroughapi.ts';
import { type Benchmark, median, type Outcome, rounded, size } from './figures.ts';

const run = promisify(execFile);
const root = join(import.meta.dirname, '../..');

export const benchmark: Benchmark = {
  about: 'disks to and from the store, straight and through the api, beside skopeo; copies; memory',
  settings: {
    SVC3_BENCH_DISK_MIB: 'size of the disk that is pushed and read (512)',
    SVC3_BENCH_SPARSE_GB: 'size of the sparse disk of the memory figure (20)',
  },
  measure,
};

const rounds = 3;

interface Place {
  readonly folder: string;
  readonly registry: TestRegistry;
  readonly client: RegistryClient;
}

async function measure(): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-bench-image-'));
  const registry = await startRegistry();
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  const place = { folder, registry, client };
  try {
    const disk = join(folder, 'disk.img');
    const mib = size('SVC3_BENCH_DISK_MIB', 512);
    await writeRandom(disk, mib);
    const rows: Row[] = [];
    await mkdir(join(folder, 'layout'));
    for (let round = 0; round < rounds; round += 1) {
      const ours = await seconds(() => pushFile(place, `ours/${round}`, disk));
      const skopeo = await pushBySkopeo(place, `theirs/${round}`, round);
      rows.push({ what: 'push', round, ours, skopeo });
      rows.push({
        what: 'read',
        round,
        ours: await seconds(() => readDisk(place, `ours/${round}`)),
        skopeo: await readBySkopeo(place, `ours/${round}`),
      });
    }
    const api = await throughApi(place, disk, rows);
    const peakOfApi = api.peakMiB;
    rows.push(...api.rows);
    const copy = await copyFigures(place);
    const peakMiB = await workerPeak(place);
    const ratio = (what: string) =>
      rounded(median(rows.filter((row) => row.what === what).map((row) => row.skopeo / row.ours)));
    return {
      rows: rows.map(({ what, round, ours, skopeo }) => ({
        what,
        round,
        ours: rounded(ours),
        skopeo: rounded(skopeo),
      })),
      figures: [
        { what: 'push, speed beside skopeo', value: ratio('push'), atLeast: 0.8 },
        { what: 'read, speed beside skopeo', value: ratio('read'), atLeast: 0.7 },
        { what: 'upload through the api, speed beside skopeo', value: ratio('api upload'), atLeast: 0.7 },
        { what: 'download through the api, speed beside skopeo', value: ratio('api download'), atLeast: 0.7 },
        { what: 'peak memory of the api, MiB', value: peakOfApi, atMost: 150 },
        { what: 'copy within the store, seconds', value: copy.seconds, atMost: 1 },
        { what: 'copy within the store, bytes of blobs', value: copy.bytes, atMost: 0 },
        { what: 'peak memory of a worker, MiB', value: peakMiB, atMost: 150 },
      ],
    };
  } finally {
    await client.close();
    await registry.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

interface Row {
  readonly what: string;
  readonly round: number;
  /** Seconds. */
  readonly ours: number;
  readonly skopeo: number;
}

/** The same disk through the api, beside what skopeo took straight to the registry in the same round. */
async function throughApi(
  { folder, registry }: Place,
  disk: string,
  direct: readonly Row[],
): Promise<{ rows: Row[]; peakMiB: number }> {
  const transfer = await startTransferBench(registry, folder);
  try {
    const rows: Row[] = [];
    const skopeoOf = (what: string, round: number) =>
      direct.find((row) => row.what === what && row.round === round)?.skopeo ?? Number.NaN;
    for (let round = 0; round < rounds; round += 1) {
      const name = `disk-${round}`;
      const up = await transfer.upload(name, disk);
      rows.push({ what: 'api upload', round, ours: up, skopeo: skopeoOf('push', round) });
      const down = await transfer.download(name);
      rows.push({ what: 'api download', round, ours: down, skopeo: skopeoOf('read', round) });
    }
    return { rows, peakMiB: transfer.peakRssMiB() };
  } finally {
    await transfer.stop();
  }
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return (performance.now() - began) / 1000;
}

async function writeRandom(path: string, mib: number): Promise<void> {
  const file = await open(path, 'w');
  for (let at = 0; at < mib; at += 1) await file.write(randomBytes(2 ** 20));
  await file.close();
}

async function pushFile({ client }: Place, repository: string, path: string): Promise<void> {
  await pushDisk(client, {
    repository,
    tag: '1',
    architecture: 'amd64',
    fileName: 'disk.img',
    size: (await stat(path)).size,
    content: createReadStream(path, { highWaterMark: 2 ** 20 }),
  });
}

/** The same by hand: a layer made with tar, an OCI layout around it, and skopeo. Salted, so that nothing is there already. */
async function pushBySkopeo(place: Place, repository: string, round: number): Promise<number> {
  const { folder, registry } = place;
  const layout = join(folder, `layout/${round}`);
  const blobs = join(layout, 'blobs/sha256');
  await mkdir(blobs, { recursive: true });
  const salt = join(folder, 'salt');
  await writeFile(salt, randomBytes(1024));
  const layerFile = join(folder, 'layer.tar');
  const began = performance.now();
  await run('tar', ['-C', folder, '-cf', layerFile, 'disk.img', 'salt']);
  const digestOf = async (path: string) => {
    const hash = createHash('sha256');
    await pipeline(createReadStream(path, { highWaterMark: 2 ** 20 }), hash);
    return hash.digest('hex');
  };
  const layer = { digest: await digestOf(layerFile), size: (await stat(layerFile)).size };
  await run('mv', [layerFile, join(blobs, layer.digest)]);
  const put = async (content: Buffer): Promise<{ digest: string; size: number }> => {
    const digest = createHash('sha256').update(content).digest('hex');
    await writeFile(join(blobs, digest), content);
    return { digest, size: content.length };
  };
  const config = await put(
    Buffer.from(
      JSON.stringify({
        architecture: 'amd64',
        os: 'linux',
        config: {},
        rootfs: { type: 'layers', diff_ids: [`sha256:${layer.digest}`] },
      }),
    ),
  );
  const describe = (mediaType: string, { digest, size }: { digest: string; size: number }) => ({
    mediaType,
    digest: `sha256:${digest}`,
    size,
  });
  const manifest = await put(
    manifestOf(describe(mediaTypes.ociConfig, config), [describe(mediaTypes.ociLayer, layer)], {}),
  );
  await writeFile(join(layout, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  const manifests = [
    {
      ...describe(mediaTypes.ociManifest, manifest),
      annotations: { 'org.opencontainers.image.ref.name': '1' },
    },
  ];
  await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
  await run('skopeo', [
    'copy',
    '--preserve-digests',
    '--dest-tls-verify=false',
    `oci:${layout}:1`,
    `docker://${registry.address}/${repository}:1`,
  ]);
  const took = (performance.now() - began) / 1000;
  await rm(layout, { recursive: true, force: true });
  return took;
}

async function readDisk({ client, registry }: Place, repository: string): Promise<void> {
  const image = await resolveImage(client, parseReference(`${registry.address}/${repository}:1`));
  const disk = await locateDisk(client, repository, image);
  if (disk === undefined) throw new Error(`${repository} holds no disk`);
  await pipeline(disk.read(), nowhere());
}

function nowhere(): Writable {
  return new Writable({ write: (_chunk, _encoding, done) => done() });
}

async function readBySkopeo({ folder, registry }: Place, repository: string): Promise<number> {
  const target = join(folder, 'read');
  const took = await seconds(() =>
    run('skopeo', [
      'copy',
      '--src-tls-verify=false',
      `docker://${registry.address}/${repository}:1`,
      `dir:${target}`,
    ]),
  );
  await rm(target, { recursive: true, force: true });
  return took;
}

/** Seconds of a copy, and the bytes of blobs that came into the registry with it. */
async function copyFigures({ client, registry }: Place): Promise<{ seconds: number; bytes: number }> {
  const stored = async () =>
    Number((await run('du', ['-sb', `${registry.dir}/data/docker/registry/v2/blobs`])).stdout.split('\t')[0]);
  const image = await resolveImage(client, parseReference(`${registry.address}/ours/0:1`));
  const before = await stored();
  const took = await seconds(() => copyImage(client, image, 'ours/0', { repository: 'copy', tag: '1' }));
  // The manifest is a file too.
  const bytes = (await stored()) - before;
  return { seconds: rounded(took), bytes: bytes < 64 * 1024 ? 0 : bytes };
}

/** Peak of the resident memory of a worker that takes a sparse disk in, run as it ships: bundled. In MiB. */
async function workerPeak({ folder, registry, client }: Place): Promise<number> {
  const bundles = join(folder, 'bundles');
  await run('node_modules/.bin/rolldown', ['-c'], {
    cwd: root,
    env: { ...process.env, SVC3_BUNDLE_DIR: bundles },
  });
  const disk = join(folder, 'disk/disk.img');
  await mkdir(join(folder, 'disk'));
  await writeFile(disk, randomBytes(2 ** 20));
  await truncate(disk, size('SVC3_BENCH_SPARSE_GB', 20) * 1e9);
  const packed = join(folder, 'sparse.tar.zst');
  await run('bash', ['-c', `tar -C '${folder}' -c disk/disk.img | zstd -q -1 -f -o '${packed}'`]);
  await rm(disk);
  const layer = await readFile(packed);
  const config = Buffer.from('{"architecture":"amd64","os":"linux"}');
  const digests = [await client.putBlob('sparse', config), await client.putBlob('sparse', layer)] as const;
  const manifest = manifestOf(
    { mediaType: mediaTypes.ociConfig, digest: digests[0], size: config.length },
    [{ mediaType: mediaTypes.ociLayerZstd, digest: digests[1], size: layer.length }],
    {},
  );
  await client.putManifest('sparse', '1', manifest, mediaTypes.ociManifest);
  const work: WorkSpec = {
    version: 1,
    kind: 'Image',
    source: { type: 'remote', reference: `${registry.address}/sparse:1` },
    target: { registry: registry.address, repository: 'made', tag: '1' },
    registries: { [registry.address]: { scheme: 'http', skipVerify: false } },
    architecture: 'amd64',
    limits: { virtualBytes: 2 ** 46, fileBytes: 2 ** 40 },
    port: 0,
  };
  return peakOf(join(bundles, 'worker.js'), folder, work);
}

async function peakOf(program: string, folder: string, work: WorkSpec): Promise<number> {
  const result = join(folder, 'result');
  const child = spawn(process.execPath, [program], {
    env: {
      PATH: process.env['PATH'],
      ...workerProcess,
      SVC3_WORK: JSON.stringify(work),
      SVC3_SCRATCH: folder,
      SVC3_TERMINATION_LOG: result,
    },
    stdio: 'ignore',
  });
  let peakKiB = 0;
  const sampling = setInterval(() => {
    readFile(`/proc/${child.pid}/status`, 'utf8').then(
      (text) => {
        peakKiB = Math.max(peakKiB, Number(/VmHWM:\s+(\d+)/.exec(text)?.[1] ?? 0));
      },
      () => undefined,
    );
  }, 50);
  await new Promise((resolve) => child.once('close', resolve));
  clearInterval(sampling);
  const { result: how } = JSON.parse(await readFile(result, 'utf8')) as { result: string };
  if (how !== 'Done') throw new Error(`the worker ended with ${await readFile(result, 'utf8')}`);
  return Math.round(peakKiB / 1024);
}
