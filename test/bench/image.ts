import { execFile, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, mkdtemp, open, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { mediaTypes, createRegistryClient, type RegistryClient } from '../../src/registry/client.ts';
import { openDisk, pushDisk } from '../../src/registry/disk.ts';
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

/** A way of a disk to the store and back, in seconds. `name` is new in each round. */
interface Way {
  push(name: string): Promise<number>;
  read(name: string): Promise<number>;
}

const wayNames = ['ours', 'api', 'skopeo'] as const;
type WayName = (typeof wayNames)[number];

interface Row extends Record<WayName, number> {
  readonly what: 'push' | 'read';
  readonly round: number;
}

async function measure(): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-bench-image-'));
  const registry = await startRegistry();
  const client = createRegistryClient({ registry: registry.address, scheme: 'http' });
  const place = { folder, registry, client };
  try {
    const disk = join(folder, 'disk.img');
    await writeRandom(disk, size('SVC3_BENCH_DISK_MIB', 512));
    const { rows, peakOfApi } = await transfers(place, disk);
    const copy = await copyFigures(place, nameOf(0));
    const peakMiB = await workerPeak(place);
    const ratio = (what: Row['what'], way: WayName) =>
      rounded(median(rows.filter((row) => row.what === what).map((row) => row.skopeo / row[way])));
    return {
      rows: rows.map(({ what, round, ours, api, skopeo }) => ({
        what,
        round,
        'ours, s': rounded(ours),
        'api, s': rounded(api),
        'skopeo, s': rounded(skopeo),
      })),
      figures: [
        { what: 'push, speed beside skopeo', value: ratio('push', 'ours'), atLeast: 0.8 },
        { what: 'read, speed beside skopeo', value: ratio('read', 'ours'), atLeast: 0.7 },
        { what: 'upload through the api, speed beside skopeo', value: ratio('push', 'api'), atLeast: 0.7 },
        { what: 'download through the api, speed beside skopeo', value: ratio('read', 'api'), atLeast: 0.7 },
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

/**
 * The disk by each way to the store and from there to a file, with its digest checked, round by round: another way first each time, after a round
 * that does not count. Each round's disk is new to the store, and what skopeo pushes is made beforehand.
 */
async function transfers(place: Place, disk: string): Promise<{ rows: Row[]; peakOfApi: number }> {
  const transfer = await startTransferBench(place.registry, place.folder);
  const skopeo = skopeoOf(place);
  const ways: Record<WayName, Way> = {
    ours: {
      push: (name) => seconds(() => pushFile(place, `ours/${name}`, disk)),
      read: (name) => seconds(() => readDisk(place, `ours/${name}`)),
    },
    api: { push: (name) => transfer.upload(name, disk), read: (name) => transfer.download(name) },
    skopeo,
  };
  const rows: Row[] = [];
  try {
    for (let round = -1; round < rounds; round += 1) {
      await renew(disk);
      await skopeo.prepare();
      for (const what of ['push', 'read'] as const) {
        const took: Record<WayName, number> = { ours: 0, api: 0, skopeo: 0 };
        for (const way of turned(wayNames, round + 1)) took[way] = await ways[way][what](nameOf(round));
        if (round >= 0) rows.push({ what, round, ...took });
      }
    }
    return { rows, peakOfApi: transfer.peakRssMiB() };
  } finally {
    await transfer.stop();
  }
}

function nameOf(round: number): string {
  return `disk-${round + 1}`;
}

/** The same in the same order, from another one on. */
function turned<T>(all: readonly T[], by: number): T[] {
  const from = by % all.length;
  return [...all.slice(from), ...all.slice(0, from)];
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

/** Other bytes at its beginning, so that the store has none of it yet. */
async function renew(path: string): Promise<void> {
  const file = await open(path, 'r+');
  await file.write(randomBytes(1024), 0, 1024, 0);
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

/** The same by hand: a layer made with tar and an OCI layout around it beforehand, and skopeo. */
function skopeoOf({ folder, registry }: Place): Way & { prepare(): Promise<void> } {
  const layout = join(folder, 'layout');
  const target = join(folder, 'read');
  const at = (name: string) => `docker://${registry.address}/skopeo/${name}:1`;
  const copy = (...args: string[]) => seconds(() => run('skopeo', ['copy', '--preserve-digests', ...args]));
  return {
    async prepare() {
      await rm(layout, { recursive: true, force: true });
      await makeLayout(folder, layout);
    },
    push: (name) => copy('--dest-tls-verify=false', `oci:${layout}:1`, at(name)),
    async read(name) {
      const took = await copy('--src-tls-verify=false', at(name), `dir:${target}`);
      await rm(target, { recursive: true, force: true });
      return took;
    },
  };
}

async function makeLayout(folder: string, layout: string): Promise<void> {
  const blobs = join(layout, 'blobs/sha256');
  await mkdir(blobs, { recursive: true });
  const layerFile = join(layout, 'layer.tar');
  await run('tar', ['-C', folder, '-cf', layerFile, 'disk.img']);
  const hash = createHash('sha256');
  await pipeline(createReadStream(layerFile, { highWaterMark: 2 ** 20 }), hash);
  const layer = { digest: hash.digest('hex'), size: (await stat(layerFile)).size };
  await rename(layerFile, join(blobs, layer.digest));
  const put = async (content: Buffer): Promise<{ digest: string; size: number }> => {
    const digest = createHash('sha256').update(content).digest('hex');
    await writeFile(join(blobs, digest), content);
    return { digest, size: content.length };
  };
  const rootfs = { type: 'layers', diff_ids: [`sha256:${layer.digest}`] };
  const config = await put(
    Buffer.from(JSON.stringify({ architecture: 'amd64', os: 'linux', config: {}, rootfs })),
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
  const annotations = { 'org.opencontainers.image.ref.name': '1' };
  const manifests = [{ ...describe(mediaTypes.ociManifest, manifest), annotations }];
  await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests }));
}

/** To a file, with the digest of the layer checked, as skopeo reads. */
async function readDisk({ client, registry, folder }: Place, repository: string): Promise<void> {
  const image = await resolveImage(client, parseReference(`${registry.address}/${repository}:1`));
  const disk = await openDisk(client, repository, image);
  const target = join(folder, 'read.img');
  await pipeline(disk.stream, createWriteStream(target));
  await disk.verified;
  await rm(target);
}

/** Seconds of a copy, and the bytes of blobs that came into the registry with it. */
async function copyFigures(
  { client, registry }: Place,
  name: string,
): Promise<{ seconds: number; bytes: number }> {
  const stored = async () =>
    Number((await run('du', ['-sb', `${registry.dir}/data/docker/registry/v2/blobs`])).stdout.split('\t')[0]);
  const image = await resolveImage(client, parseReference(`${registry.address}/ours/${name}:1`));
  const before = await stored();
  const took = await seconds(() =>
    copyImage(client, image, `ours/${name}`, { repository: 'copy', tag: '1' }),
  );
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
