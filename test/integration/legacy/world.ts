/**
 * The gateway over the real kube-apiserver, with a stand-in for the operator and one for the store. It cannot show when the work behind an answer
 * is done, nor the values that real VMs and disks have; test/life/gateway.test.ts does.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect } from 'vitest';
import { images, isos, nodes, vmConfigs, vms } from '../../../src/api/resources.ts';
import { createGateway } from '../../../src/http/legacy/gateway.ts';
import { rows } from '../../../src/http/legacy/table.ts';
import { isSvc3Error } from '../../../src/errors.ts';
import { Readable } from 'node:stream';
import { startTestApi, type TestApi } from '../../support/api.ts';
import { testCluster, uniqueNamespace, type TestCluster } from '../../support/cluster.ts';
import { startStandInOperator } from '../../support/standinoperator.ts';

export interface Example {
  readonly name: string;
  readonly status: number | null;
  readonly request: unknown;
  readonly response: unknown;
}
export interface Contract {
  readonly method: string;
  readonly path: string;
  readonly title: string;
  readonly examples: readonly Example[];
}

export const contracts = JSON.parse(
  readFileSync(new URL('../../contracts/legacy-2.4-examples.json', import.meta.url), 'utf8'),
) as Contract[];
export const vm = 'legacy';
export const fields = {
  vm,
  vmID: '',
  node: 'node-1',
  newNode: 'node-2',
  nodeTag: 'pool',
  baseImage: 'mojave.img',
  armBaseImage: 'arm.img',
  storageImage: 'storage.img',
  newBaseImage: 'ventura.img',
  iso: 'install.iso',
  image: 'mojave.img',
  systemSerial: 'C02XX',
  email: 'a@example.com',
  domain: '',
};
/** Fields of examples that cannot be: the specification removed what they speak of. */
export const gone = new Set(['attached_disk_info']);

export let cluster: TestCluster;
export let api: TestApi;
export let namespace: string;
export let node: string;
export let operator: ReturnType<typeof startStandInOperator>;

/** The world of a test file, which says so at its top: modules are loaded once per worker, and hooks of a module are those of the first file that loads it. */
export function legacyWorld(): void {
  beforeAll(async () => {
    cluster = await testCluster();
    namespace = await uniqueNamespace(cluster.client, 'legacy');
    node = `node-${namespace}`;
    fields.node = node;
    api = await startTestApi(
      cluster.client,
      {
        remotes: {
          list: () =>
            Promise.resolve({
              items: [
                { name: 'registry.example.com/team/mojave.img:1' },
                { name: 'registry.example.com/team/install.iso:1' },
              ],
              incomplete: [],
            }),
        },
        transfer: {
          async upload({ kind, namespace: where, name, content }) {
            for await (const _ of content) void _;
            const resource = kind === 'ISO' ? isos : images;
            return await cluster.client.create(resource, {
              metadata: { name, namespace: where },
              spec: { source: { upload: {} } },
            });
          },
          download: () => Promise.resolve({ stream: Readable.from(['disk']), size: 4, fileName: 'disk.img' }),
        },
      },
      (services) => ({
        surfaces: (authenticator) => [createGateway(authenticator, rows, services.settings.defaultNamespace)],
      }),
    );
    fields.domain = api.baseUrl;
    operator = startStandInOperator(cluster.client, namespace, { node, cpu: 24 });
    await cluster.client.create(nodes, {
      metadata: { name: node, labels: { 'svc3.dev/namespace': namespace } },
    });
    await cluster.client.patch(
      nodes,
      { name: node },
      {
        type: 'merge',
        body: {
          status: {
            allocatable: { cpu: '24', memory: '60Gi' },
            addresses: [{ type: 'InternalIP', address: '192.0.2.9' }],
            conditions: [{ type: 'Ready', status: 'True' }],
          },
        },
      },
      { subresource: 'status' },
    );
  });

  afterAll(async () => {
    await operator?.stop();
    await api?.close();
    await cluster.client.delete(nodes, { name: node }).catch(() => undefined);
  });
}

export const call = (method: string, path: string, body?: unknown, extra: Record<string, string> = {}) =>
  api.call(method, path, {
    token: cluster.adminToken,
    ...(body === undefined ? {} : { body }),
    headers: { 'x-svc3-namespace': namespace, ...extra },
  });

export function filled<T>(value: T): T {
  const text = JSON.stringify(value ?? null).replaceAll(
    /\{\{(\w+)\}\}/g,
    (whole, name: keyof typeof fields) => fields[name] ?? whole,
  );
  return JSON.parse(text) as T;
}

export async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch((error: unknown) => {
    if (!isSvc3Error(error, 'NotFound', 'AlreadyExists')) throw error;
  });
}

export async function noVms(): Promise<void> {
  for (const { metadata } of (await cluster.client.list(vms, { namespace })).items)
    await quietly(cluster.client.delete(vms, { name: metadata.name, namespace }));
  await expect.poll(() => api.services.caches.vms.objects.list(namespace).length).toBe(0);
}

export async function config(memory?: number): Promise<void> {
  await noConfig();
  const body = {
    svc_vm_name: vm,
    svc_base_image: fields.baseImage,
    svc_cpu_core: 6,
    vcpu_count: 6,
    tag: 'pool',
    ...(memory === undefined ? {} : { memory }),
  };
  expect((await call('POST', '/resources/vm/create', body)).status).toBe(201);
}

export async function noConfig(): Promise<void> {
  await quietly(cluster.client.delete(vmConfigs, { name: vm, namespace }));
  await expect.poll(() => api.services.caches.vmConfigs.objects.get(vm, namespace)).toBeUndefined();
}

export async function image(name: string): Promise<void> {
  await quietly(
    cluster.client.create(images, {
      metadata: { name, namespace },
      spec: { source: { blank: { size: '10G' } } },
    }),
  );
  await expect.poll(() => api.services.caches.images.objects.get(name, namespace)).toBeDefined();
}

export async function iso(name: string): Promise<void> {
  await quietly(
    cluster.client.create(isos, { metadata: { name, namespace }, spec: { source: { upload: {} } } }),
  );
  await expect.poll(() => api.services.caches.isos.objects.get(name, namespace)).toBeDefined();
}

export async function without(kind: 'images' | 'isos', name: string): Promise<void> {
  await quietly(cluster.client.delete(kind === 'images' ? images : isos, { name, namespace }));
  await expect.poll(() => api.services.caches[kind].objects.get(name, namespace)).toBeUndefined();
}

export async function deployed(): Promise<void> {
  await noVms();
  await config();
  await image(fields.baseImage);
  const { status, json } = await call('POST', '/resources/vm/deploy', { svc_vm_name: vm });
  expect([status, json.errors]).toEqual([200, []]);
  fields.vmID = json.vm_id;
}

export async function inState(powerState: 'Stopped' | 'Suspended'): Promise<void> {
  await deployed();
  await cluster.client.patch(vms, { name: vm, namespace }, { type: 'merge', body: { spec: { powerState } } });
  await expect
    .poll(() => api.services.caches.vms.objects.get(vm, namespace)?.status?.powerState)
    .toBe(powerState);
}

/** What has to be there before the calls of a row are replayed. */
export const before: Readonly<Record<string, (example: Example) => Promise<void>>> = {
  '/resources/vm/list': deployed,
  '/resources/vm/status/{{vm}}': async ({ name, response }) => {
    if (!name.includes('Not Deployed')) return deployed();
    await noVms();
    return config(JSON.stringify(response).includes('RAM') ? 10 : undefined);
  },
  '/resources/vm/configs': () => config(10),
  '/resources/vm/configs/{{vm}}': ({ name }) => config(name.includes('with custom') ? 10 : undefined),
  '/resources/vm/create': async () => {
    await noVms();
    await noConfig();
  },
  '/resources/vm/deploy': async () => {
    await noVms();
    await config();
    await image(fields.baseImage);
  },
  '/resources/vm/delete': deployed,
  '/resources/vm/purge': deployed,
  '/resources/vm/exec/start': () => inState('Stopped'),
  '/resources/vm/exec/stop': deployed,
  '/resources/vm/exec/suspend': deployed,
  '/resources/vm/exec/resume': () => inState('Suspended'),
  '/resources/vm/exec/revert': deployed,
  '/resources/image/list': () => image(fields.baseImage),
  '/resources/image/copy': async () => {
    await image(fields.baseImage);
    await without('images', fields.newBaseImage);
  },
  '/resources/image/pull': async () => {
    await noVms();
    await without('images', fields.baseImage);
    await without('images', fields.newBaseImage);
  },
  '/resources/image/delete': async () => {
    await noVms();
    await image(fields.baseImage);
  },
  '/resources/image/commit': deployed,
  '/resources/image/save': async () => {
    await deployed();
    await without('images', fields.newBaseImage);
  },
  '/resources/image/generate': () => without('images', fields.storageImage),
  '/resources/image/download/{{baseImage}}': async ({ status }) => {
    if (status === 404) {
      await noVms();
      return without('images', fields.baseImage);
    }
    await image(fields.baseImage);
    const { metadata } = await cluster.client.get(images, fields.baseImage, namespace);
    await cluster.client.patch(
      images,
      { name: fields.baseImage, namespace },
      {
        type: 'merge',
        body: {
          status: {
            observedGeneration: metadata.generation,
            digest: `sha256:${'0'.repeat(64)}`,
            conditions: [
              {
                type: 'Ready',
                status: 'True',
                reason: 'Ready',
                message: '',
                lastTransitionTime: '2026-01-01T00:00:00Z',
              },
            ],
          },
        },
      },
      { subresource: 'status' },
    );
    await expect
      .poll(() => api.services.caches.images.objects.get(fields.baseImage, namespace)?.status?.conditions)
      .toBeDefined();
  },
  '/resources/iso/list': () => iso(fields.iso),
  '/resources/iso/pull': async () => {
    await without('isos', fields.iso);
    await without('isos', `new${fields.iso}`);
  },
  '/resources/iso/copy': async () => {
    await iso(fields.iso);
    await without('isos', `new${fields.iso}`);
  },
  '/resources/iso/delete': async () => {
    await iso(fields.iso);
    // The copy of the row before, which nobody makes here.
    await without('isos', `new${fields.iso}`);
  },
};
