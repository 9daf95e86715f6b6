import type { Node } from '../../../../src/api/core.ts';
import type { Image } from '../../../../src/api/image.ts';
import type { KubeObject, NamespacedMeta, Resource } from '../../../../src/api/object.ts';
import { vmConfigs as configKind, vms as vmKind } from '../../../../src/api/resources.ts';
import type { Vm, VmStatus } from '../../../../src/api/vm.ts';
import type { VmConfig } from '../../../../src/api/vmconfig.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import type { Answer, MappedRow } from '../../../../src/http/legacy/row.ts';
import { rows } from '../../../../src/http/legacy/table.ts';
import type { RemoteImage } from '../../../../src/http/call/services.ts';
import type { ListOptions } from '../../../../src/kube/types.ts';
import type { Tracer } from '../../../../src/tracing/span.ts';

type Stored = KubeObject & { readonly metadata: NamespacedMeta };

export interface Objects {
  readonly vms?: readonly Vm[];
  readonly configs?: readonly VmConfig[];
  readonly images?: readonly Image[];
}

interface World {
  /** As the caches of the api have it. */
  readonly cached?: Objects;
  /** As kube-apiserver has it; as the caches do where nothing is said. */
  readonly live?: Objects;
  readonly nodes?: readonly Node[];
  readonly remotes?: readonly RemoteImage[];
  readonly tracer?: Tracer;
  /** The status that a VM has as soon as it is made. */
  readonly statusOfNew?: VmStatus;
  /** The api ends: nobody waits for anything. */
  readonly drains?: boolean;
}

/** Something that was asked of kube-apiserver. */
interface Asked {
  readonly verb: 'get' | 'list' | 'create' | 'patch' | 'delete';
  readonly kind: string;
  readonly name?: string;
  readonly given?: unknown;
}

interface Patch {
  readonly body: { readonly metadata?: { readonly uid?: string }; readonly spec?: Vm['spec'] };
}

const refusal = (reason: 'NotFound' | 'Conflict' | 'AlreadyExists', kind: string, name: string): Svc3Error =>
  new Svc3Error(reason, `${kind} "${name}": ${reason}`, { details: { kind, name } });

/** The objects of a world by the plural of their kind. */
function byKind({ vms = [], configs = [], images = [] }: Objects): Map<string, Stored[]> {
  return new Map<string, Stored[]>([
    [vmKind.plural, [...vms]],
    [configKind.plural, [...configs]],
    ['images', [...images]],
  ]);
}

/** A kube-apiserver in which VMs do at once what their spec says. */
function apiserver(objects: Map<string, Stored[]>, asked: Asked[], statusOfNew?: VmStatus) {
  const found = (kind: string, name: string, uid?: string): Stored => {
    const object = objects.get(kind)?.find(({ metadata }) => metadata.name === name);
    if (object === undefined) throw refusal('NotFound', kind, name);
    if (uid !== undefined && uid !== object.metadata.uid) throw refusal('Conflict', kind, name);
    return object;
  };
  const put = (kind: string, name: string, object?: Stored): void => {
    const others = (objects.get(kind) ?? []).filter(({ metadata }) => metadata.name !== name);
    objects.set(kind, object === undefined ? others : [...others, object]);
  };
  return {
    async get({ plural: kind }: Resource<Stored>, name: string) {
      asked.push({ verb: 'get', kind, name });
      return found(kind, name);
    },
    async list({ plural: kind }: Resource<Stored>, { transform = (one) => one }: ListOptions<Stored> = {}) {
      asked.push({ verb: 'list', kind });
      return { items: (objects.get(kind) ?? []).map((object) => transform(object)), resourceVersion: '9' };
    },
    async create({ plural: kind }: Resource<Stored>, given: Stored) {
      const { generateName = '' } = given.metadata;
      const name = generateName === '' ? given.metadata.name : `${generateName}x7k2p`;
      asked.push({ verb: 'create', kind, name, given });
      if (objects.get(kind)?.some(({ metadata }) => metadata.name === name))
        throw refusal('AlreadyExists', kind, name);
      const metadata = { ...given.metadata, name, uid: `uid-of-${name}`, resourceVersion: '9' };
      const made = { ...given, metadata, ...(statusOfNew === undefined ? {} : { status: statusOfNew }) };
      put(kind, name, made);
      return made;
    },
    async patch({ plural: kind }: Resource<Stored>, { name }: { name: string }, { body }: Patch) {
      asked.push({ verb: 'patch', kind, name, given: body });
      const vm = found(kind, name, body.metadata?.uid) as Vm;
      const powerState = body.spec?.powerState ?? vm.status?.powerState;
      const status = { ...vm.status, powerState, observedGeneration: vm.metadata.generation ?? 1 };
      const patched = { ...vm, spec: { ...vm.spec, ...body.spec }, status } as Vm;
      put(kind, name, patched);
      return patched;
    },
    async delete({ plural: kind }: Resource<Stored>, { name }: { name: string }, given?: { uid?: string }) {
      asked.push({ verb: 'delete', kind, name, given });
      found(kind, name, given?.uid);
      put(kind, name);
    },
  };
}

/** A cache that hears of everything as soon as somebody waits for it. */
function cacheOf(kind: string, cached: Map<string, Stored[]>, live: Map<string, Stored[]>) {
  const named = (objects: Map<string, Stored[]>, name: string) =>
    objects.get(kind)?.find(({ metadata }) => metadata.name === name);
  return {
    objects: {
      resource: { plural: kind },
      get: (name: string) => named(cached, name),
      list: () => cached.get(kind) ?? [],
    },
    changes: {
      async until(
        { name }: { name: string },
        done: (object: Stored | undefined) => boolean,
        signal?: AbortSignal,
      ) {
        signal?.throwIfAborted();
        const object = named(live, name);
        done(object);
        return object;
      },
    },
  };
}

/**
 * The gateway over stand-ins: its rows with everything behind them but kube-apiserver and registries. It cannot show what these refuse, nor which
 * rights a row asks for; test/integration/legacy/replay.test.ts and rights.test.ts beside it do.
 */
export function aGateway(world: World) {
  const { cached = {}, live = cached, nodes = [], remotes = [], tracer, statusOfNew, drains } = world;
  const asked: Asked[] = [];
  const warnings: string[] = [];
  const [seen, real] = [byKind(cached), byKind(live)];
  const client = apiserver(real, asked, statusOfNew);
  const caches = {
    vms: cacheOf(vmKind.plural, seen, real),
    vmConfigs: cacheOf(configKind.plural, seen, real),
    images: cacheOf('images', seen, real),
    isos: cacheOf('isos', seen, real),
    nodes: { get: (name: string) => nodes.find(({ metadata }) => metadata.name === name) },
  };
  const never = new AbortController().signal;
  const settings = {
    gpuPassthroughEnabled: false,
    hostPortsAllowed: { from: 1, to: 65_535 },
    defaultNamespace: 'svc3-default',
  };
  const services = { client, caches, tracer, settings };
  const call = {
    namespace: 'team',
    baseUrl: 'https://x',
    signal: never,
    drain: drains === true ? AbortSignal.abort() : never,
    caller: { client, authorize: async () => undefined, user: async () => ({ username: 'me' }) },
    services: { ...services, remotes: { list: async () => ({ items: remotes, incomplete: [] }) } },
    header: () => undefined,
    warn: (text: string) => warnings.push(text),
  };
  async function ask(
    method: string,
    path: string,
    { params = {}, body = {} }: { readonly params?: object; readonly body?: object } = {},
  ): Promise<Exclude<Answer, { reply: unknown }>> {
    const row = rows.find(
      (one): one is MappedRow => one.kind === 'mapped' && one.method === method && one.path === path,
    );
    if (row === undefined) throw new Error(`no row ${method} ${path}`);
    const answer = await row.handler({ ...call, params, body: row.body.parse(body) } as never);
    return answer as Exclude<Answer, { reply: unknown }>;
  }
  /** What was written, without what was looked for. */
  const writes = () => asked.filter(({ verb }) => verb !== 'get' && verb !== 'list');
  return { ask, asked, client, writes, warnings };
}
