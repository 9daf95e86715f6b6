import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import type { Image, ImageStatus, Iso } from '../../../src/api/image.ts';
import { images, isos, namespaces } from '../../../src/api/resources.ts';
import { findCondition } from '../../../src/controller/conditions.ts';
import { createInformers } from '../../../src/controller/informers.ts';
import { createCredentialController } from '../../../src/controllers/credential/controller.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import {
  createImageControllers,
  type ImageControllerParts,
} from '../../../src/controllers/image/controller.ts';
import type { ImageSettings } from '../../../src/controllers/image/settings.ts';
import { createRecorder } from '../../../src/kube/recorder.ts';
import type { KubeClient } from '../../../src/kube/types.ts';
import { freePorts } from '../../../src/localcluster/controlplane/ports.ts';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { openDisk } from '../../../src/registry/disk.ts';
import { resolveImage } from '../../../src/registry/image.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { createLogger, createMetrics } from '../../../src/telemetry.ts';
import { startRegistry, type TestRegistry, type TestRegistryOptions } from '../../support/registry.ts';
import type { OwnControlPlane } from '../../support/controlplane.ts';
import { runWorkers, type WorkerKubelet } from '../../support/workers.ts';
import {
  addCredential,
  credentialCluster,
  newNamespace,
  type CredentialCluster,
} from '../credential/harness.ts';
import type { Submitted } from '../../../src/api/object.ts';

export const soon = { interval: 50 } as const;
const run = promisify(execFile);

export interface ImageCluster extends CredentialCluster {
  readonly registry: TestRegistry;
  readonly settings: ImageSettings;
  readonly workers: WorkerKubelet;
  /** A namespace with a credential for the store, in which pods have to pass Pod Security `restricted`. */
  namespace(): Promise<string>;
  /** The store with the same credential. */
  openStore(): RegistryClient;
}

/** Control plane, store and a stand-in for the kubelets of worker pods. */
export async function imageCluster(
  options: TestRegistryOptions = { auth: 'basic' },
  own?: OwnControlPlane,
): Promise<ImageCluster> {
  const [cluster, registry, [port = 0]] = await Promise.all([
    credentialCluster(own),
    startRegistry(options),
    freePorts(1),
  ]);
  const workers = runWorkers(cluster.client);
  const server = `${registry.scheme}://${registry.address}`;
  return {
    ...cluster,
    registry,
    workers,
    settings: {
      store: { url: server, prefix: 'svc3' },
      workerImage: 'worker',
      workerImagePullPolicy: 'IfNotPresent',
      workerPullSecret: undefined,
      workerPort: port,
      scratchBytes: 2 ** 31,
      uploadExpiryMs: 86_400_000,
      maxVirtualBytes: 2 ** 40,
      runnerPort: 8443,
    },
    async namespace() {
      const namespace = await newNamespace(cluster.client, 'image');
      const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
      await cluster.client.patch(
        namespaces,
        { name: namespace },
        { type: 'merge', body: { metadata: { labels } } },
      );
      await addCredential(cluster.client, namespace, server, registry.password);
      return namespace;
    },
    openStore: () =>
      createRegistryClient({
        registry: registry.address,
        scheme: registry.scheme,
        ...(registry.ca === undefined ? {} : { ca: registry.ca }),
        credentials: { username: registry.username, password: registry.password },
      }),
    async remove() {
      await workers.stop();
      await registry.stop();
      await cluster.remove();
    },
  };
}

export interface ImageOperator {
  readonly logged: () => string;
  stop(): Promise<void>;
}

/** The controllers of credentials and images as the operator's process runs them, without election. */
export function startImageOperator(
  client: KubeClient,
  settings: ImageSettings,
  parts: ImageControllerParts = {},
): ImageOperator {
  const stopping = new AbortController();
  let logged = '';
  const destination = { write: (line: string) => void (logged += line) };
  const log = createLogger({ name: 'operator', level: 'debug', destination });
  const informers = createInformers(client, log);
  const recorder = createRecorder(client, { component: 'operator', log });
  const common = {
    client,
    informers,
    recorder,
    log,
    metrics: createMetrics(),
    gate: { isHeld: () => true, assertHeld: () => undefined },
  };
  const credentials = createCredentialController({
    ...common,
    settings: { insecureRegistries: { enabled: false, allowed: [] } },
  });
  const disks = createImageControllers({ ...common, settings }, parts);
  const stopped = new Promise<void>((resolve) =>
    stopping.signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  const running = Promise.all([
    informers.run(stopping.signal),
    // One that is stopped at once never sees the end of its first lists.
    Promise.race([informers.synced(), stopped]).then(() =>
      Promise.all([credentials, ...disks].map((each) => each.run(stopping.signal))),
    ),
  ]);
  running.catch(() => undefined);
  return {
    logged: () => logged,
    async stop() {
      stopping.abort();
      await running.catch(() => undefined);
    },
  };
}

type Source = Image['spec']['source'];

export function anImage(namespace: string, name: string, source: Source): Submitted<Image> {
  return { metadata: { namespace, name }, spec: { source } };
}

export function anIso(namespace: string, name: string, source: Iso['spec']['source']): Submitted<Iso> {
  return { metadata: { namespace, name }, spec: { source } };
}

export async function statusOf(
  client: KubeClient,
  namespace: string,
  name: string,
  kind: 'Image' | 'ISO' = 'Image',
): Promise<ImageStatus | undefined> {
  try {
    const disk: Image | Iso =
      kind === 'Image' ? await client.get(images, name, namespace) : await client.get(isos, name, namespace);
    return disk.status ?? {};
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

/** `Ready` or the reason why not; `gone` where there is no such object. */
export async function readyOf(
  client: KubeClient,
  namespace: string,
  name: string,
  kind: 'Image' | 'ISO' = 'Image',
): Promise<string> {
  const status = await statusOf(client, namespace, name, kind);
  if (status === undefined) return 'gone';
  const stalled = findCondition(status.conditions, 'Stalled');
  if (stalled?.status === 'True') return `Stalled ${stalled.reason}: ${stalled.message}`;
  const ready = findCondition(status.conditions, 'Ready');
  return ready?.status === 'True' ? 'Ready' : `${ready?.reason}: ${ready?.message}`;
}

export async function becomesReady(
  client: KubeClient,
  namespace: string,
  name: string,
  kind: 'Image' | 'ISO' = 'Image',
): Promise<ImageStatus> {
  await expect.poll(() => readyOf(client, namespace, name, kind), soon).toBe('Ready');
  return (await statusOf(client, namespace, name, kind)) ?? {};
}

/** The disk of a reference, whole. */
export async function diskOf(client: RegistryClient, reference: string): Promise<Buffer> {
  const parsed = parseReference(reference);
  const image = await resolveImage(client, parsed);
  const { stream, verified } = await openDisk(client, parsed.repository, image);
  const bytes = await buffer(stream);
  await verified;
  return bytes;
}

/** A small qcow2 disk with some data, made by qemu-img. */
export async function aQcow2(options: { size?: string; fill?: Buffer } = {}): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-disk-'));
  try {
    const raw = join(folder, 'raw');
    const { writeFile, truncate } = await import('node:fs/promises');
    await writeFile(raw, options.fill ?? Buffer.from('svc3 test disk'));
    await truncate(raw, Math.max(2 ** 20, options.fill?.length ?? 0));
    const disk = join(folder, 'disk.qcow2');
    await run('qemu-img', ['convert', '-f', 'raw', '-O', 'qcow2', raw, disk]);
    if (options.size !== undefined)
      await run('qemu-img', ['resize', '-q', '-f', 'qcow2', disk, options.size]);
    return await readFile(disk);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
