import { poll } from '../../poll.ts';
import type { DeployWait } from '../../../usecases/deploy.ts';
import { ifFound } from '../../../errors.ts';
import { changeTimeoutMs, powerTimeoutMs } from '../../../usecases/waiter.ts';
import type { ClusterInfo, OidcClient } from '../../../wire/schemas.ts';
import type {
  Explanation,
  RemoteItem,
  Disks,
  RegistryCredentialItem,
  RegistryCredentialRequest,
  RegistryCredentials,
  Service,
  ServiceAccountItem,
  Verdict,
  VmChangeRequest,
  ChangedVm,
  WaitOptions,
  VmConfigItem,
  VmItem,
  VmPoolItem,
  NodeItem,
  DiskItem,
  DeployItem,
  DeployOptions,
  DeployRequest,
  IssuedToken,
} from '../types.ts';
import type { BackendOptions, HttpTarget } from '../open.ts';
import type { SeenVm } from './deploy.ts';
import type { RequestWaiting } from './request.ts';
import { createApiClient, type ApiClient, type ApiRequest } from './client.ts';
import { downloadResumably } from './download.ts';
import { uploadResumably } from './upload.ts';

interface List<T> {
  readonly items: T[];
}

/** svc3 over `/api/v1`; what has no endpoint there goes straight to kube-apiserver where a kubeconfig is at hand. */
export function openHttp(
  target: HttpTarget & BackendOptions & { readonly kubernetes: () => Promise<Service> },
): Promise<Service> {
  const api = createApiClient({ ...target, signal: target.environment.signal });
  const { kubernetes } = target;
  const service: Service = {
    vms: vmsOf(api, kubernetes),
    vmConfigs: {
      list: (ns) => list<VmConfigItem>(api, path(ns, 'vmconfigs')),
      listAll: () => list<VmConfigItem>(api, '/api/v1/vmconfigs'),
      watch: (ns, signal) => watch<VmConfigItem>(api, path(ns, 'vmconfigs'), signal),
      get: (ns, name) => get<VmConfigItem>(api, path(ns, 'vmconfigs', name)),
      create: (ns, request) => post<VmConfigItem>(api, path(ns, 'vmconfigs'), request),
      delete: (ns, name) => del(api, path(ns, 'vmconfigs', name)),
    },
    vmPools: {
      list: (ns) => list<VmPoolItem>(api, path(ns, 'vmpools')),
      // `/api/v1` lists them by namespace alone.
      listAll: async () => (await kubernetes()).vmPools.listAll(),
      watch: (ns, signal) => watch<VmPoolItem>(api, path(ns, 'vmpools'), signal),
      get: (ns, name) => get<VmPoolItem>(api, path(ns, 'vmpools', name)),
      create: (ns, request) => post<VmPoolItem>(api, path(ns, 'vmpools'), request),
      scale: (ns, name, request) => post<VmPoolItem>(api, path(ns, 'vmpools', name, 'scale'), request),
      delete: (ns, name) => del(api, path(ns, 'vmpools', name)),
    },
    nodes: {
      list: (ns) => list<NodeItem>(api, path(ns, 'nodes')),
      watch: (ns, signal) => watch<NodeItem>(api, path(ns, 'nodes'), signal),
      top: async () => (await kubernetes()).nodes.top(),
      tag: async (ns, name, tag) => void (await post(api, path(ns, 'nodes', name, 'tag'), { tag })),
      untag: async (ns, name, tag) => void (await post(api, path(ns, 'nodes', name, 'untag'), { tag })),
      assign: async (name, namespace) => void (await post(api, nodePath(name, 'assign'), { namespace })),
      setGpuPassthrough: async (name, allowed) =>
        void (await post(api, nodePath(name, 'gpupassthrough'), { allowed })),
    },
    images: disksOf(api, 'images', () => list<DiskItem>(api, '/api/v1/images')),
    isos: disksOf(api, 'isos', async () => (await kubernetes()).isos.listAll()),
    serviceAccounts: {
      list: (ns) => list<ServiceAccountItem>(api, path(ns, 'serviceaccounts')),
      create: async (ns, name, role) =>
        void (await post(api, path(ns, 'serviceaccounts', name), role === undefined ? {} : { role })),
      delete: (ns, name) => del(api, path(ns, 'serviceaccounts', name)),
      token: (ns, name, request) =>
        post<IssuedToken>(api, path(ns, 'serviceaccounts', name, 'token'), request),
    },
    registryCredentials: {
      list: (ns) => list<RegistryCredentialItem>(api, path(ns, 'secrets', 'registrycredentials')),
      add: (ns, request, options) => addCredential(api, ns, request, options),
      remove: (ns, server) =>
        del(api, path(ns, 'secrets', 'registrycredentials', 'remove'), { body: { server } }),
    },
    namespaces: async () => (await kubernetes()).namespaces(),
    async pageUrl() {
      const { page } = await post<{ page: string }>(api, '/ui/code', {});
      return `${api.baseUrl}${page}`;
    },
    async clusterInfo() {
      const { value } = await api.json({
        method: 'GET',
        path: '/api/v1/cluster-info',
        anonymous: true,
      });
      return value as ClusterInfo;
    },
    async oidcClient() {
      const asked = api.json({ method: 'GET', path: '/api/v1/oidc', anonymous: true });
      return (await ifFound(asked))?.value as OidcClient | undefined;
    },
    close: () => api.close(),
  };
  return Promise.resolve(service);
}

/** Path of something in a namespace, every part encoded. */
function path(namespace: string, ...parts: readonly string[]): string {
  return `/api/v1/namespaces/${[namespace, ...parts].map(encodeURIComponent).join('/')}`;
}

/** Path of something that a node has whatever the namespace. */
function nodePath(name: string, what: string): string {
  return `/api/v1/nodes/${encodeURIComponent(name)}/${what}`;
}

async function list<T>(api: ApiClient, path: string): Promise<T[]> {
  return (await get<List<T>>(api, path)).items;
}

/** `/api/v1` has no watch. */
function watch<T>(api: ApiClient, path: string, signal: AbortSignal): AsyncIterable<T[]> {
  return poll(() => list<T>(api, path), signal);
}

async function get<T>(api: ApiClient, path: string): Promise<T> {
  return (await api.json({ method: 'GET', path })).value as T;
}

async function post<T>(
  api: ApiClient,
  path: string,
  body: unknown,
  more: Partial<ApiRequest> = {},
): Promise<T> {
  return (await api.json({ method: 'POST', path, body, ...more })).value as T;
}

async function del(api: ApiClient, path: string, more: Partial<ApiRequest> = {}): Promise<void> {
  await api.json({ method: 'DELETE', path, ...more });
}

/** Deletes what takes its time. Returns how it goes on where that is longer than the server waits. */
async function remove(api: ApiClient, request: Omit<ApiRequest, 'method'>): Promise<string | undefined> {
  const { status, value } = await api.json({ method: 'DELETE', ...request });
  return status === 202 ? (value as { message: string }).message : undefined;
}

function waiting(wait: DeployWait): Pick<ApiRequest, 'query'> {
  return wait === true ? {} : { query: { wait: String(wait) } };
}

/** A server whose process ends answers before the VM runs (202): another one is asked from then on. */
async function deploy(
  api: ApiClient,
  ns: string,
  request: DeployRequest,
  { wait, signal, progress, noteCreated, traceparent }: DeployOptions,
): Promise<DeployItem> {
  progress(`${request.name ?? 'vm'}: Pending`);
  const begin = performance.now();
  const startMs = (request.timeout ?? 10) * 60_000;
  const headers = traceparent === undefined ? {} : { traceparent };
  // The server refuses a negative time, and undici would, too, with words of its own.
  const timeoutMs = Math.max(0, startMs) + 30_000;
  const more = { ...waiting(wait), headers, signal, timeoutMs };
  const { status, value } = await api.json({ method: 'POST', path: path(ns, 'vms'), body: request, ...more });
  const created = value as DeployItem;
  noteCreated(created.name);
  if (status !== 202 || wait === false) return created;
  const { waitForDeployed } = await import('./deploy.ts');
  const read = () => seenVm(api, path(ns, 'vms', created.name), wait, signal);
  const leftMs = Math.max(1, startMs - (performance.now() - begin));
  return waitForDeployed(created, { read, timeoutMs: leftMs, signal, progress });
}

/** Whether its guest answers is told by its conditions alone. */
async function seenVm(api: ApiClient, path: string, wait: DeployWait, signal: AbortSignal): Promise<SeenVm> {
  const read = { method: 'GET', signal } as const;
  if (wait !== 'reachable') return { item: (await api.json({ ...read, path })).value as VmItem };
  const asked = api.json({ ...read, path: `${path}/explain`, query: { nodes: 'false' } });
  const { item, conditions } = (await asked).value as Explanation;
  const ready = conditions.find(({ type }) => type === 'Ready');
  const isReady = ready?.status === 'True';
  return { item: item as VmItem, isReady, why: isReady ? undefined : ready?.message };
}

async function set(
  api: ApiClient,
  { name, path }: { readonly name: string; readonly path: string },
  change: VmChangeRequest,
  { wait, signal, progress }: WaitOptions,
): Promise<ChangedVm> {
  progress(`${name}: changing`);
  const endsAt = performance.now() + changeTimeoutMs;
  const asked = { method: 'PATCH', path, body: change, signal, timeoutMs: 60_000 } as const;
  const { status, value } = await api.json({ ...asked, ...waiting(wait) });
  const vm = value as VmItem;
  if (status !== 202 || !wait) return { vm, isSeen: status === 200 };
  const left = `change of VM ${name} was accepted, and the server has ended the wait before the operator has looked at it: svc3 vm explain ${name} shows what of a change waits for its next start`;
  const seen = await waitOn(api, { name, path, request: vm.request, endsAt, left, signal, progress });
  return { vm: seen ?? vm, isSeen: seen !== undefined };
}

/** Goes on where a server whose process ends has ended its wait. */
async function waitOn(api: ApiClient, waited: RequestWaiting): Promise<VmItem | undefined> {
  const { waitForRequest } = await import('./request.ts');
  return waitForRequest(api, waited);
}

function vmsOf(api: ApiClient, kubernetes: () => Promise<Service>): Service['vms'] {
  return {
    list: (ns) => list<VmItem>(api, path(ns, 'vms')),
    listAll: () => list<VmItem>(api, '/api/v1/vms'),
    watch: (ns, signal) => watch<VmItem>(api, path(ns, 'vms'), signal),
    get: (ns, name) => get<VmItem>(api, path(ns, 'vms', name)),
    deploy: (ns, request, options) => deploy(api, ns, request, options),
    async delete(ns, name, { wait, deleteDisk, signal }) {
      const query = { ...waiting(wait).query, ...(deleteDisk ? { deleteDisk: 'true' } : {}) };
      return remove(api, { path: path(ns, 'vms', name), query, signal, timeoutMs: 120_000 });
    },
    async exec(ns, name, command, { wait, signal, progress }) {
      progress(`${name}: ${command}`);
      const endsAt = performance.now() + powerTimeoutMs;
      const asked = { method: 'POST', path: path(ns, 'vms', name, 'exec'), body: { command } } as const;
      const { status, value } = await api.json({ ...asked, ...waiting(wait), signal, timeoutMs: 180_000 });
      if (status !== 202 || !wait) return status === 200;
      const { request } = value as { request?: string };
      const left = `${command} of VM ${name} was accepted, and the server has ended the wait before it was done: svc3 vm get ${name} shows it`;
      const waited = { name, path: path(ns, 'vms', name), request, endsAt, left, signal, progress };
      return (await waitOn(api, waited)) !== undefined;
    },
    save: (ns, name, request) => post<DiskItem>(api, path(ns, 'vms', name, 'save'), request),
    commit: (ns, name, request) => post<DiskItem>(api, path(ns, 'vms', name, 'commit'), request),
    set: (ns, name, request, options) => set(api, { name, path: path(ns, 'vms', name) }, request, options),
    // It has no endpoint (spec: "No endpoint; use CLI svc3 vm resize").
    resize: async (ns, name, gib, options) => (await kubernetes()).vms.resize(ns, name, gib, options),
    eject: async (ns, name) =>
      (await post<{ message: string }>(api, path(ns, 'vms', name, 'eject'), {})).message,
    // The log is the pod's, which kube-apiserver reads.
    async *logs(ns, name, request) {
      yield* (await kubernetes()).vms.logs(ns, name, request);
    },
    // So are the figures of metrics-server.
    top: async (ns) => (await kubernetes()).vms.top(ns),
    topAll: async () => (await kubernetes()).vms.topAll(),
    explain: (ns, name) => get<Explanation>(api, path(ns, 'vms', name, 'explain')),
    serial: (ns, name) => api.socket(path(ns, 'vms', name, 'serial')),
    tunnel: (ns, name, port) => api.socket(path(ns, 'vms', name, 'tunnel'), { port: String(port) }),
    screen: (ns, name) => api.socket(path(ns, 'vms', name, 'console', 'stream')),
    async consoleUrl(ns, name) {
      const { page } = await post<{ page: string }>(api, path(ns, 'vms', name, 'console'), {});
      return `${api.baseUrl}${page}`;
    },
  };
}

/** `listAll` is given: `/api/v1` lists ISOs by namespace alone. */
function disksOf(api: ApiClient, kind: 'images' | 'isos', listAll: Disks['listAll']): Disks {
  const remote = kind === 'images' ? 'remoteimages' : 'remoteisos';
  const word = kind === 'images' ? 'image' : 'iso';
  return {
    list: (ns) => list<DiskItem>(api, path(ns, kind)),
    listAll,
    watch: (ns, signal) => watch<DiskItem>(api, path(ns, kind), signal),
    get: (ns, name) => get<DiskItem>(api, path(ns, kind, name)),
    generate: (ns, request) => post<DiskItem>(api, path(ns, kind), request),
    copy: (ns, from, request) => post<DiskItem>(api, path(ns, kind, from, 'copy'), request),
    describe: async (ns, name, description) =>
      void (await post(api, path(ns, kind, name, 'description'), { description })),
    delete: (ns, name, signal) => remove(api, { path: path(ns, kind, name), signal, timeoutMs: 60_000 }),
    upload: (ns, request) =>
      uploadResumably(
        api,
        {
          path: path(ns, 'upload', word),
          get: () => get<DiskItem>(api, path(ns, kind, request.name)),
        },
        request,
      ),
    download: (ns, name) => downloadResumably(api, path(ns, kind, name, 'download')),
    remote: (ns) => list<RemoteItem>(api, path(ns, remote)),
    pull: (ns, reference, request) => post<DiskItem>(api, path(ns, remote, reference, 'pull'), request),
  };
}

/** 201 says added, 200 replaced; what the registry said to the login comes as a warning of the server. */
async function addCredential(
  api: ApiClient,
  ns: string,
  request: RegistryCredentialRequest,
  { verify, contacting }: Parameters<RegistryCredentials['add']>[2],
): Promise<{ replaced: boolean; verdict?: Verdict }> {
  const refusals: string[] = [];
  if (verify === 'always') contacting?.(`${api.baseUrl} logs in to ${request.server}`);
  if (verify === 'public' && request.server.startsWith('https://'))
    contacting?.(`${api.baseUrl} logs in to ${request.server}, if that is public`);
  const { status } = await api.json({
    method: 'POST',
    path: path(ns, 'secrets', 'registrycredentials', 'add'),
    body: {
      ...request,
      verify: verify !== 'never',
      ...(verify === 'public' ? { verifyOnlyPublic: true } : {}),
    },
    onWarning: (text) => refusals.push(text.replace(`${request.server}: `, '')),
  });
  const replaced = status === 200;
  if (verify === 'never') return { replaced };
  const message = refusals.join('; ');
  return {
    replaced,
    verdict:
      message === ''
        ? { accepted: true, message: 'the registry accepted the credential' }
        : { accepted: false, message },
  };
}
