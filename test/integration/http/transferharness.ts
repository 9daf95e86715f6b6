import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { buffer } from 'node:stream/consumers';
import { vi } from 'vitest';
import { imageAnnotations } from '../../../src/api/image.ts';
import { objectNames } from '../../../src/api/meta.ts';
import { images, secrets } from '../../../src/api/resources.ts';
import { ifFound } from '../../../src/errors.ts';
import { createImageTransfer } from '../../../src/http/uploads/imagetransfer.ts';
import { createRemoteCatalog } from '../../../src/http/remotes/remotes.ts';
import { createResumableUploads } from '../../../src/http/uploads/resumableuploads.ts';
import { UploadTurns } from '../../../src/http/uploads/turns.ts';
import { createUploadTargets, type UploadTargets } from '../../../src/usecases/uploadtarget.ts';
import { createNamespaceRegistries } from '../../../src/controllers/image/registries.ts';
import { createRegistryClient, type RegistryClient } from '../../../src/registry/client.ts';
import { copyImage, resolveImage } from '../../../src/registry/image.ts';
import { readAllParts, readParts } from '../../../src/registry/parts.ts';
import { parseReference } from '../../../src/registry/reference.ts';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { type Fault, withFaults } from '../../support/faultclient.ts';
import { holdWatches, type HeldWatches } from '../../support/heldwatches.ts';
import { startRegistry, type TestRegistry, type TestRegistryOptions } from '../../support/registry.ts';

export interface TransferApi {
  readonly cluster: TestCluster;
  readonly registry: TestRegistry;
  readonly store: RegistryClient;
  readonly api: TestApi;
  readonly namespace: string;
  /** Of the api's caches. */
  readonly watches: Pick<HeldWatches, 'hold' | 'release'>;
  /** As the cluster's administrator; `path` is below the namespace. */
  readonly call: TestApi['call'];
  readonly ns: (path: string) => string;
  /** Repository of an Image. */
  repository(name: string): string;
  /** What has come of the Image's upload in parts, as its worker will read it. */
  contentOf(name: string): Promise<Buffer>;
  /** What the operator does when a worker has looked at an upload, and given its manifest these annotations. */
  inspected(name: string, annotations?: Record<string, string>): Promise<void>;
  /** Resolves when the next upload to the name has begun: the name was found to be free. */
  uploadBegins(name: string): Promise<unknown>;
  /** What becomes from now on of what kube-apiserver is asked to write about uploads. */
  fails(how: Fault): void;
  /** A reply's bytes over HTTP/2. */
  fetchBytes(path: string, headers?: Record<string, string>): Promise<Fetched>;
  close(): Promise<void>;
}

export interface Fetched {
  readonly status: unknown;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly bytes: Buffer;
}

export const sha = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

/** Has the namespace reach its store with this password from now on, as its RegistryCredential would; without one, with no login. */
export async function storeLogin(
  { cluster: { client }, namespace, registry }: TransferApi,
  password?: string,
): Promise<void> {
  const name = objectNames.pullSecret;
  await ifFound(client.delete(secrets, { name, namespace }));
  if (password === undefined) return;
  const auth = Buffer.from(`${registry.username}:${password}`).toString('base64');
  const config = JSON.stringify({ auths: { [registry.address]: { auth } } });
  await client.create(secrets, {
    metadata: { name, namespace },
    type: 'kubernetes.io/dockerconfigjson',
    data: { '.dockerconfigjson': Buffer.from(config).toString('base64') },
  });
}

/** A real api with a real store; parts of resumable uploads are small, so that a test has several. */
export async function startTransferApi(
  what: string,
  turns = new UploadTurns(),
  registryOptions: TestRegistryOptions = {},
): Promise<TransferApi> {
  const cluster = await testCluster();
  const registry = await startRegistry(registryOptions);
  const namespace = await uniqueNamespace(cluster.client, what);
  const store = { url: `http://${registry.address}`, prefix: 'store' };
  const registries = createNamespaceRegistries(cluster.client, store);
  let fault: Fault = 'none';
  const found = createUploadTargets(
    withFaults(cluster.client, ({ dryRun }) => (dryRun === true ? 'none' : fault)).client,
  );
  const looks = new EventEmitter();
  const targets: UploadTargets = {
    ...found,
    async look(target, said) {
      const uid = await found.look(target, said);
      looks.emit(target.name);
      return uid;
    },
  };
  const watches = holdWatches(cluster.client);
  const api = await startTestApi(watches.client, {
    transfer: createImageTransfer(targets, registries, store, { turns }),
    uploads: createResumableUploads(targets, registries, store, { partBytes: 100_000, turns }),
    remotes: createRemoteCatalog([registry.address], (host, where) => registries.look(where, host)),
  });
  const { username, password } = registry;
  const client = createRegistryClient({
    registry: registry.address,
    scheme: 'http',
    credentials: { username, password },
  });
  const repository = (name: string) => `store/${namespace}/${name}`;

  async function annotate(name: string, digest: string, annotations: Record<string, string>) {
    const repo = repository(name);
    const image = await resolveImage(client, parseReference(`${registry.address}/${repo}@${digest}`));
    return copyImage(client, image, repo, { repository: repo, tag: 'v1', annotations });
  }

  return {
    cluster,
    registry,
    store: client,
    api,
    namespace,
    watches,
    call: (method, path, options = {}) => api.call(method, path, { token: cluster.adminToken, ...options }),
    ns: (path) => `/api/v1/namespaces/${namespace}${path}`,
    repository,
    async contentOf(name) {
      const image = await cluster.client.get(images, name, namespace);
      const tag = image.metadata.annotations?.[imageAnnotations.upload] ?? '';
      const { parts } = await readParts(client, { repository: repository(name), tag });
      return buffer(readAllParts(client, repository(name), parts));
    },
    async inspected(name, annotations) {
      const image = await cluster.client.get(images, name, namespace);
      const uploaded = image.metadata.annotations?.['svc3.dev/upload'] ?? '';
      const digest = annotations === undefined ? uploaded : await annotate(name, uploaded, annotations);
      const status = {
        observedGeneration: image.metadata.generation,
        digest,
        reference: `${registry.address}/${repository(name)}@${digest}`,
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'Ready',
            message: '',
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      };
      await cluster.client.patch(
        images,
        { name, namespace },
        { type: 'merge', body: { status } },
        { subresource: 'status' },
      );
      await vi.waitFor(() => {
        const seen = api.services.caches.images.objects.get(name, namespace);
        if (seen?.status?.reference !== status.reference) throw new Error(`${name} is not seen yet`);
      }, 60_000);
    },
    uploadBegins: (name) => once(looks, name),
    fails(how) {
      fault = how;
    },
    async fetchBytes(path, headers = {}) {
      const session = api.http2();
      const authorization = `Bearer ${cluster.adminToken}`;
      const stream = session.request({ ':path': path, authorization, ...headers });
      const { promise, resolve } = Promise.withResolvers<Record<string, unknown>>();
      stream.once('response', resolve);
      const received = await promise;
      const chunks: Buffer[] = [];
      for await (const chunk of stream) chunks.push(chunk as Buffer);
      session.close();
      return { status: received[':status'], headers: received, bytes: Buffer.concat(chunks) };
    },
    async close() {
      await client.close();
      watches.release();
      await api.close();
      await registry.stop();
    },
  };
}
