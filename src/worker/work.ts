import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { WorkDone, WorkSpec } from '../api/worker.ts';
import { createRegistryClient, mediaTypes, type RegistryClient } from '../registry/client.ts';
import { pushDisk, withDiskDigest } from '../registry/disk.ts';
import { copyImage } from '../registry/image.ts';
import type { PushedLayer } from '../registry/layer.ts';
import { loginFor } from '../registry/login.ts';
import { publish } from '../registry/publish.ts';
import { together } from '../together.ts';
import { inspect, type Inspected } from './inspection.ts';
import { writeSparse } from './sparsefile.ts';
import { storeMemory } from './memory.ts';
import type { WorkParts } from './parts.ts';
import { qemuImg } from './qemuimg.ts';
import { openSource, type OpenedSource } from './source.ts';

/**
 * Fetches one disk, inspects it and puts it into the store. The manifest comes last, so that there is never a part of an
 * image under a name; whatever fails leaves nothing but blobs that the store collects. An upload stays: this pod may be lost
 * before the operator knows its result, and another one then does the same work.
 */
export async function work(spec: WorkSpec, parts: WorkParts): Promise<WorkDone> {
  const clients = new Map<string, RegistryClient>();
  const open = (registry: string): RegistryClient => {
    const known = clients.get(registry) ?? clientFor(registry, spec, parts);
    clients.set(registry, known);
    return known;
  };
  const folder = await mkdtemp(join(parts.scratch, 'work-'));
  try {
    return await fetchAndPush(spec, parts, folder, open);
  } finally {
    await rm(folder, { recursive: true, force: true });
    await Promise.all([...clients.values()].map((client) => client.close()));
  }
}

async function fetchAndPush(
  spec: WorkSpec,
  parts: WorkParts,
  folder: string,
  open: (registry: string) => RegistryClient,
): Promise<WorkDone> {
  const { target } = spec;
  const { signal } = parts;
  const fetched = join(folder, 'fetched');
  const client = open(target.registry);
  const [{ source, found }, memory] = await together(
    signal,
    (either) => fetchDisk(spec, { ...parts, signal: either }, fetched, open),
    (either) => storeMemory(client, spec, { ...parts, signal: either }),
  );
  const architecture = source.architecture ?? spec.architecture;
  const disk = { fetched, found, folder, architecture };
  const same = await reused(client, spec, { ...disk, image: source.image }, signal);
  const pushed = same ?? (await pushInspected(client, spec, { ...disk, memory: memory?.layer }, parts));
  await publish(client, target.repository, pushed.digest, signal);
  return {
    result: 'Done',
    digest: pushed.digest,
    size: found.virtualSize,
    storedSize: pushed.size,
    format: found.format === 'iso' ? 'iso' : 'qcow2',
    architecture,
    ...(memory === undefined ? {} : { memory: memory.stored }),
  };
}

async function fetchDisk(
  { source: from, kind, limits }: WorkSpec,
  { signal, progress, ticket, tool = qemuImg }: WorkParts,
  fetched: string,
  open: (registry: string) => RegistryClient,
): Promise<{ source: OpenedSource; found: Inspected }> {
  const source = await openSource(from, { open, ticket, maxBytes: limits.fileBytes, signal });
  const fetching = progress.step(0, 45);
  await writeSparse(source.stream, fetched, {
    maxBytes: limits.fileBytes,
    expected: source.size,
    signal,
    onProgress: (bytes) => fetching(bytes, source.size ?? bytes * 2),
  });
  await source.verified;
  const { virtualBytes: maxVirtualSize } = limits;
  return { source, found: await inspect(fetched, { kind, maxVirtualSize, signal, tool }) };
}

interface Fetched {
  readonly fetched: string;
  readonly found: Inspected;
  readonly folder: string;
  readonly architecture: string;
}

async function pushInspected(
  client: RegistryClient,
  { target }: WorkSpec,
  { fetched, found, folder, architecture, memory }: Fetched & { readonly memory: PushedLayer | undefined },
  parts: WorkParts,
): Promise<{ digest: string; size: number }> {
  const { signal, progress } = parts;
  const disk = await packed(fetched, found, folder, parts);
  const { size } = await stat(disk.path);
  const pushing = progress.step(55, 99);
  return pushDisk(client, {
    repository: target.repository,
    tag: target.tag,
    architecture,
    fileName: disk.fileName,
    size,
    content: createReadStream(disk.path, { highWaterMark: 1024 * 1024 }),
    noteDigest: true,
    ...(memory === undefined ? {} : { before: [memory] }),
    signal,
    onProgress: (bytes) => pushing(bytes, size),
  });
}

/** An upload that is stored already as the image is to be stored is not pushed again: it gets its tag and the digest of its disk. Undefined for all others. */
async function reused(
  client: RegistryClient,
  { source, target }: WorkSpec,
  { image, fetched, found, architecture }: Fetched & { image: OpenedSource['image'] },
  signal: AbortSignal,
): Promise<{ digest: string; size: number } | undefined> {
  if (source.type !== 'upload' || image === undefined) return undefined;
  const { resolved, registry, repository, fileName } = image;
  const [layer, ...others] = resolved.manifest.layers;
  const isSame =
    registry === target.registry &&
    repository === target.repository &&
    resolved.architecture === architecture &&
    fileName.endsWith(`.${found.format}`) &&
    layer?.mediaType === mediaTypes.ociLayer &&
    others.length === 0;
  if (!isSame || found.format === 'raw') return undefined;
  const annotations = withDiskDigest(await digestOf(fetched));
  const as = { repository, tag: target.tag, annotations, signal };
  return { digest: await copyImage(client, resolved, repository, as), size: layer.size };
}

/** A raw disk is stored as qcow2, without the blocks that hold nothing and compressed; everything else as it came. */
async function packed(
  path: string,
  { format }: Inspected,
  folder: string,
  { signal, progress, tool = qemuImg }: WorkParts,
): Promise<{ path: string; fileName: string }> {
  if (format === 'iso') return { path, fileName: 'medium.iso' };
  if (format === 'qcow2') return { path, fileName: 'disk.qcow2' };
  const target = join(folder, 'packed');
  const packing = progress.step(45, 55);
  await tool(
    ['convert', '-p', '-f', 'raw', '-O', 'qcow2', '-c', '-o', 'compression_type=zstd', path, target],
    { signal, onProgress: (percent) => packing(percent, 100) },
  );
  await rm(path);
  return { path: target, fileName: 'disk.qcow2' };
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path, { highWaterMark: 1024 * 1024 }), hash);
  return `sha256:${hash.digest('hex')}`;
}

function clientFor(registry: string, spec: WorkSpec, { dockerConfig }: WorkParts): RegistryClient {
  const { scheme, skipVerify } = spec.registries[registry] ?? { scheme: 'https', skipVerify: false };
  const credentials = loginFor(dockerConfig, registry);
  return createRegistryClient({
    registry,
    scheme,
    skipVerify,
    ...(credentials === undefined ? {} : { credentials }),
  });
}
