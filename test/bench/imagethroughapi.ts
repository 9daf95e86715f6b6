import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { namespaces as names, objectNames } from '../../src/api/meta.ts';
import { images, namespaces, secrets } from '../../src/api/resources.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { ownControlPlane, type OwnControlPlane } from '../support/controlplane.ts';
import { installDefinitions } from '../support/definitions.ts';
import type { TestRegistry } from '../support/registry.ts';
import { startBenchApi, type BenchApi } from './apiprocess.ts';
import { usageOf } from './operatorprocess.ts';

const run = promisify(execFile);
const namespace = 'bench';

/** The api with a store, and what its transfers cost. */
export interface TransferBench {
  /** Seconds. */
  upload(name: string, file: string): Promise<number>;
  download(name: string): Promise<number>;
  peakRssMiB(): number;
  stop(): Promise<void>;
}

export async function startTransferBench(registry: TestRegistry, folder: string): Promise<TransferBench> {
  const plane = await ownControlPlane({ components: [] });
  const client = createClient(await loadKubeconfig(plane.kubeconfigPath), { userAgent: 'bench' });
  await installDefinitions(client);
  for (const name of [namespace, names.system]) await client.create(namespaces, { metadata: { name } });
  const store = { SVC3_STORE_URL: `http://${registry.address}`, SVC3_STORE_PREFIX: 'api' };
  const api = await startBenchApi(plane.kubeconfigPath, folder, store);
  const caFile = join(folder, 'api.pem');
  const { data } = await client.get(secrets, objectNames.apiTlsSecret, names.system);
  await writeFile(caFile, Buffer.from(data?.['tls.crt'] ?? '', 'base64'));
  const curl = curlOf(plane, api, caFile);
  return {
    upload: (name, file) => curl('-X', 'POST', '-T', file, '-o', '/dev/null', `upload/image?name=${name}`),
    async download(name) {
      await makeReady(client, registry, name);
      const target = join(folder, 'downloaded');
      const took = await curl('-o', target, `images/${name}/download`);
      await rm(target);
      return took;
    },
    peakRssMiB: () => Math.round(usageOf(api.pid).peakRssMB),
    async stop() {
      await api.stop();
      await client.close();
      await plane.stop();
    },
  };
}

function curlOf(plane: OwnControlPlane, api: BenchApi, caFile: string) {
  return async (...args: readonly string[]): Promise<number> => {
    const path = args.at(-1) ?? '';
    const common = ['-sS', '--fail-with-body', '--http1.1', '--cacert', caFile, '-w', '%{time_total}'];
    const headers = ['-H', `Authorization: Bearer ${plane.adminToken}`, '-H', 'Expect:'];
    const url = `https://localhost:${api.port}/api/v1/namespaces/${namespace}/${path}`;
    const { stdout } = await run('curl', [...common, ...headers, ...args.slice(0, -1), url]);
    return Number(stdout);
  };
}

/** What the operator does when a worker has looked at an upload. */
async function makeReady(client: RootClient, registry: TestRegistry, name: string): Promise<void> {
  const { metadata } = await client.get(images, name, namespace);
  const digest = metadata.annotations?.['svc3.dev/upload'] ?? '';
  const ready = {
    type: 'Ready',
    status: 'True',
    reason: 'Stored',
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  const status = {
    observedGeneration: metadata.generation,
    digest,
    reference: `${registry.address}/api/${namespace}/${name}@${digest}`,
    conditions: [ready],
  };
  const patch = { type: 'merge', body: { status } } as const;
  await client.patch(images, { name, namespace }, patch, { subresource: 'status' });
  // Until the api's cache shows it.
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}
