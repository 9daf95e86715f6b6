import { randomBytes } from 'node:crypto';
import { connect, type ClientHttp2Session } from 'node:http2';
import { PassThrough } from 'node:stream';
import { Registry } from 'prom-client';
import { Agent, request } from 'undici';
import { expect } from 'vitest';
import { vms } from '../../src/api/resources.ts';
import type { Vm, VmStatus } from '../../src/api/vm.ts';
import { createInformers } from '../../src/controller/informers.ts';
import { Svc3Error } from '../../src/errors.ts';
import { selfSigned } from '../../src/http/server/certificate.ts';
import { cachesOf, createApi, type Api, type ApiOptions } from '../../src/http/process.ts';
import type { Services } from '../../src/http/call/services.ts';
import { createSealer } from '../../src/http/auth/seals.ts';
import { createTicketSigner } from '../../src/http/auth/tickets.ts';
import { createServingTls, type KeyPair } from '../../src/http/server/tls.ts';
import type { RootClient } from '../../src/kube/client.ts';
import type { KubeClient } from '../../src/kube/types.ts';
import { usagesStandIn } from './vmusage.ts';

/** A log that keeps every line, for tests that search it. */
export function keptLog(): Services['log'] & { readonly lines: string[]; debug(): void } {
  const lines: string[] = [];
  const keep = (level: string) => (fields: Record<string, unknown>, message: string) => {
    const err = fields['err'];
    lines.push(
      JSON.stringify({ level, ...fields, message, ...(err instanceof Error ? { err: err.stack } : {}) }),
    );
  };
  return { lines, debug: () => undefined, info: keep('info'), warn: keep('warn'), error: keep('error') };
}

export interface TestApi {
  readonly api: Api;
  readonly services: Services;
  readonly log: ReturnType<typeof keptLog>;
  readonly baseUrl: string;
  readonly port: number;
  readonly tls: KeyPair;
  readonly registry: Registry;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  http2(): ClientHttp2Session;
  close(graceMs?: number, leaveMs?: number): Promise<void>;
}

export interface CallOptions {
  readonly token?: string | undefined;
  readonly body?: unknown;
  readonly raw?: string | Buffer;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string | string[] | undefined>;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into replies as they please
  readonly json: any;
}

/**
 * A real api on loopback over the real kube-apiserver; only runner, store and registry are stand-ins. It cannot show what these answer;
 * test/e2e/api.test.ts does.
 */
export async function startTestApi(
  client: KubeClient,
  overrides: Partial<Services> | ((services: Services) => Partial<Services>) = {},
  options: Partial<ApiOptions> | ((services: Services) => Partial<ApiOptions>) = {},
): Promise<TestApi> {
  const log = keptLog();
  const stopping = new AbortController();
  const informers = createInformers(client, log);
  const caches = cachesOf(client, informers);
  const defaults: Services = {
    client,
    caches,
    log,
    settings: {
      version: '3.0.0',
      gpuPassthroughEnabled: false,
      clusterEndpoint: 'https://cluster.example.com:6443',
      clusterCaPem: () => Promise.resolve('CA'),
      apiDomain: '',
      hostPortsAllowed: { first: 20_000, last: 29_999 },
      defaultNamespace: 'svc3-default',
    },
    registryLogin: () => Promise.resolve({ outcome: 'Accepted', message: '' }),
    transfer: {
      upload: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
      download: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
    },
    uploads: {
      begin: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
      state: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
      append: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
      cancel: () => Promise.reject(new Svc3Error('Conflict', 'no store in this test')),
    },
    remotes: {
      list: () =>
        Promise.resolve({
          items: [{ name: 'registry.example.com/team/debian:12', tags: ['11', '12'] }],
          incomplete: [],
        }),
    },
    runners: {
      openVnc: () => Promise.resolve(new PassThrough()),
      openSerial: () => Promise.resolve(new PassThrough()),
      openTunnel: () => Promise.resolve(new PassThrough()),
    },
    usages: usagesStandIn(),
    certificates: { replace: () => Promise.resolve() },
    tickets: createTicketSigner(randomBytes(32)),
    seals: createSealer(randomBytes(32)),
  };
  const services: Services = {
    ...defaults,
    ...(typeof overrides === 'function' ? overrides(defaults) : overrides),
  };
  const tls = await selfSigned(['localhost', '127.0.0.1']);
  const registry = new Registry();
  const running = informers.run(stopping.signal);
  await informers.synced();
  const more = typeof options === 'function' ? options(services) : options;
  const api = createApi({
    services,
    registry,
    tls: createServingTls({ pair: tls }),
    checkReplies: true,
    ...more,
  });
  const { port } = await api.listen({ host: '127.0.0.1', port: 0 });
  const agent = new Agent({ connect: { ca: tls.cert }, allowH2: false, connections: 64 });
  const baseUrl = `https://localhost:${port}`;
  return {
    api,
    services,
    log,
    baseUrl,
    port,
    tls,
    registry,
    call: (method, path, { token, body, raw, headers = {}, signal } = {}) =>
      answerOf(
        request(`${baseUrl}${path}`, {
          method: method as 'GET',
          dispatcher: agent,
          ...(signal === undefined ? {} : { signal }),
          headers: {
            ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...headers,
          },
          ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
        }),
      ),
    http2: () => connect(baseUrl, { ca: tls.cert }),
    async close(graceMs = 2_000, leaveMs = 0) {
      await api.close(graceMs, leaveMs);
      await agent.destroy();
      stopping.abort();
      await running.catch(() => undefined);
    },
  };
}

async function answerOf(pending: ReturnType<typeof request>): Promise<Answer> {
  const { statusCode, headers, body } = await pending;
  const text = await body.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: statusCode, headers, text, json };
}

/** Until kube-apiserver lets a new token list VMs there: it hears of a right a moment after that was given. */
export async function untilAllowed(client: RootClient, token: string, namespace: string): Promise<void> {
  const listed = () =>
    client
      .withToken(token)
      .list(vms, { namespace })
      .then(() => 'allowed', String);
  await expect.poll(listed).toBe('allowed');
}

/** Writes a VM's status as the operator would. */
export async function reportVm(client: KubeClient, vm: Vm, status: VmStatus): Promise<Vm> {
  const { name, namespace, generation = 1 } = vm.metadata;
  return client.patch(
    vms,
    { name, namespace },
    { type: 'merge', body: { status: { observedGeneration: generation, ...status } } },
    { subresource: 'status' },
  );
}

/** A VM that the api takes for running. */
export async function runningVm({ services }: TestApi, namespace: string, name: string): Promise<Vm> {
  const { client, caches } = services;
  const created = await client.create(vms, {
    metadata: { name, namespace },
    spec: { image: 'registry.example.com/team/debian:12', powerState: 'Running' },
  });
  const vm = await reportVm(client, created, runningStatus);
  const isSeen = (cached: Vm | undefined): boolean =>
    cached?.metadata.resourceVersion === vm.metadata.resourceVersion;
  await caches.vms.changes.until({ name, namespace }, isSeen, AbortSignal.timeout(60_000));
  return vm;
}

export function condition(type: string, status: 'True' | 'False', reason = 'Test', message = '') {
  return { type, status, reason, message, lastTransitionTime: '2026-01-01T00:00:00Z' };
}

export const runningStatus: VmStatus = {
  conditions: [
    condition('Scheduled', 'True'),
    condition('Prepared', 'True'),
    condition('Booted', 'True'),
    condition('Ready', 'True'),
  ],
  powerState: 'Running',
  node: 'node-1',
  ip: '192.0.2.10',
  ports: { ssh: 8822, vnc: 5999, screenshare: 5901 },
  effective: {
    image:
      'registry.example.com/team/debian@sha256:0000000000000000000000000000000000000000000000000000000000000000',
    architecture: 'amd64',
    cpu: 2,
    memory: '2Gi',
    gpuPassthrough: 'Disabled',
    vncConsole: 'Enabled',
  },
};
