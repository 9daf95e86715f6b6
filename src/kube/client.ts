import { fieldManagers } from '../api/meta.ts';
import { apiVersionOf } from '../api/resources.ts';
import { Svc3Error } from '../errors.ts';
import { cutAllManagedFields } from './managedfields.ts';
import { defaultPageSize, PageTurns, type ListPage } from './pages.ts';
import type { ConnectionConfig } from './connection.ts';
import type { Credential } from './credential.ts';
import { resourcePath } from './path.ts';
import { applyPatch } from './retry.ts';
import { createTransport } from './transport.ts';
import type { Transport, TransportOptions } from './transport.ts';
import type { KubeObject, Resource } from '../api/object.ts';
import type {
  ApplyOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
  RawRequest,
  RawResponse,
  WriteOptions,
} from './types.ts';

/** Pages of lists that a process reads at the same time: whoever has a token may ask the api for as many lists as they like. */
const pagesAtOnce = 2;

const patchTypes = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  strategic: 'application/strategic-merge-patch+json',
} as const;

/** The client of a kubeconfig's or a pod's identity also tells what belongs to the connection. */
export interface RootClient extends KubeClient {
  readonly connection: ConnectionConfig;
  readonly credential: Credential;
  /** Sockets to kube-apiserver, callers' included: open now, and opened since the start. */
  connections(): { open: number; opened: number };
}

type Managed<T> = T & { readonly fieldManager: string };
type ManagedWrite = Managed<WriteOptions & { subresource?: string }>;

function writeQuery(options: WriteOptions & { fieldManager?: string }): NonNullable<RawRequest['query']> {
  return { dryRun: options.dryRun === true ? 'All' : undefined, fieldManager: options.fieldManager };
}

/**
 * Of a write that carries an object made by our types. kube-apiserver would look for unknown and repeated fields, to warn of
 * them, and parse an apply a second time for that (a tenth of what it allocates for one); such warnings are for text that
 * people write, and a schema's refusals come all the same.
 */
function objectQuery(options: Managed<WriteOptions>): NonNullable<RawRequest['query']> {
  return { ...writeQuery(options), fieldValidation: 'Ignore' };
}

function keyOf(object: KubeObject): { name: string; namespace: string | undefined } {
  const { name, namespace } = object.metadata ?? {};
  if (name === undefined) throw new Svc3Error('BadRequest', `${object.kind ?? 'object'} needs metadata.name`);
  return { name, namespace };
}

/** Without apiVersion and kind no write is understood; callers need not repeat what the resource says. */
function typed(resource: Resource<KubeObject>, object: KubeObject): KubeObject {
  return {
    ...object,
    apiVersion: object.apiVersion ?? apiVersionOf(resource),
    kind: object.kind ?? resource.kind,
  };
}

function signalOf(options: { signal?: AbortSignal }): { signal?: AbortSignal } {
  return options.signal === undefined ? {} : { signal: options.signal };
}

/** How a client reads pages of lists. */
interface Paging {
  readonly pageSize: number;
  /** Makes every try to read a page. */
  inTurn<T>(attempt: () => Promise<T>, signal: AbortSignal | undefined): Promise<T>;
}

async function list<T extends KubeObject>(
  call: (request: RawRequest) => Promise<RawResponse>,
  { pageSize, inTurn }: Paging,
  resource: Resource<T>,
  options: ListOptions<T>,
) {
  const { transform = (object: T): T => object } = options;
  const items: T[] = [];
  let next: string | undefined;
  for (;;) {
    const request: RawRequest = {
      method: 'GET',
      path: resourcePath(resource, { namespace: options.namespace }),
      query: {
        limit: options.pageSize ?? pageSize,
        continue: next,
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
      },
      ...signalOf(options),
      shorten: cutAllManagedFields,
      inTurn: (attempt) => inTurn(attempt, options.signal),
    };
    const { body } = await call(request);
    const { items: found, metadata } = body as ListPage<T>;
    // What is dropped of them may be freed before the next page is read.
    for (const item of found ?? []) items.push(transform(item));
    next = metadata.continue;
    if (next === undefined || next === '') return { items, resourceVersion: metadata.resourceVersion ?? '' };
  }
}

function createRequest(
  resource: Resource<KubeObject>,
  created: KubeObject,
  options: ManagedWrite,
): RawRequest {
  const { subresource } = options;
  const { name, namespace } = created.metadata ?? {};
  return {
    method: 'POST',
    path: resourcePath(
      resource,
      // An object is made in its collection; a subresource (binding, token) below the object that has it.
      subresource === undefined ? { namespace } : { namespace, name, subresource },
    ),
    body: subresource === undefined ? typed(resource, created) : created,
    query: objectQuery(options),
    ...signalOf(options),
  };
}

function applyRequest(
  resource: Resource<KubeObject>,
  applied: KubeObject,
  options: Managed<ApplyOptions>,
): RawRequest {
  return {
    method: 'PATCH',
    path: resourcePath(resource, { ...keyOf(applied), subresource: options.subresource }),
    query: {
      ...objectQuery(options),
      force: options.force ?? true,
    },
    body: typed(resource, applied),
    contentType: applyPatch,
    ...signalOf(options),
  };
}

function patchRequest(
  resource: Resource<KubeObject>,
  key: { name: string; namespace?: string },
  { type, body }: { type: keyof typeof patchTypes; body: unknown },
  options: ManagedWrite,
): RawRequest {
  return {
    method: 'PATCH',
    path: resourcePath(resource, { ...key, subresource: options.subresource }),
    query: objectQuery(options),
    body,
    contentType: patchTypes[type],
    ...signalOf(options),
  };
}

function replaceRequest(
  resource: Resource<KubeObject>,
  replaced: KubeObject,
  options: ManagedWrite,
): RawRequest {
  return {
    method: 'PUT',
    path: resourcePath(resource, { ...keyOf(replaced), subresource: options.subresource }),
    body: typed(resource, replaced),
    query: objectQuery(options),
    ...signalOf(options),
  };
}

function deleteRequest(
  resource: Resource<KubeObject>,
  key: { name: string; namespace?: string },
  options: DeleteOptions,
): RawRequest {
  const { uid, resourceVersion, propagationPolicy, gracePeriodSeconds } = options;
  // A path without a name is that of the whole collection.
  if (typeof key.name !== 'string') throw new TypeError(`${resource.kind} needs a name to be deleted`);
  const preconditions =
    uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
  // kube-apiserver reads options of the query only where there is no body: a dry run there would delete.
  const dryRun = options.dryRun === true ? ['All'] : undefined;
  return {
    method: 'DELETE',
    path: resourcePath(resource, key),
    body: {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      preconditions,
      propagationPolicy,
      gracePeriodSeconds,
      dryRun,
    },
    ...signalOf(options),
  };
}

/** What a client does whatever its identity is. */
interface Manners {
  readonly fieldManager: string;
  readonly pageSize: number;
  readonly turns: PageTurns;
}

interface ClientParts {
  readonly transport: Transport;
  readonly manners: Manners;
  readonly guard?: (() => void) | undefined;
  /** Who takes turns with others at reading pages of lists. */
  readonly reader: string;
}

function methods(parts: ClientParts): KubeClient {
  const { transport, manners, guard, reader } = parts;
  const { fieldManager, pageSize, turns } = manners;
  const call = (request: RawRequest): Promise<RawResponse> =>
    transport.call(request, request.method === 'GET' ? undefined : guard);

  const paging: Paging = {
    pageSize,
    inTurn: (attempt, signal) => turns.read(reader, attempt, signal),
  };

  const managed = <T extends object>(options: T) => ({ fieldManager, ...options });

  async function object<T extends KubeObject>(request: RawRequest): Promise<T> {
    return (await call(request)).body as T;
  }

  return {
    get: (resource, name, namespace) =>
      object({ method: 'GET', path: resourcePath(resource, { namespace, name }) }),
    list: (resource, options = {}) => list(call, paging, resource, options),
    create: (resource, created, options = {}) => object(createRequest(resource, created, managed(options))),
    apply: (resource, applied, options = {}) => object(applyRequest(resource, applied, managed(options))),
    patch: (resource, key, patch, options = {}) =>
      object(patchRequest(resource, key, patch, managed(options))),
    replace: (resource, replaced, options = {}) =>
      object(replaceRequest(resource, replaced, managed(options))),
    async delete(resource, key, options = {}) {
      await call(deleteRequest(resource, key, options));
    },
    request: <T>(request: RawRequest) => call(request) as Promise<RawResponse<T>>,
    stream(request) {
      if (request.method !== 'GET') guard?.();
      return transport.stream(request);
    },
    withGuard: (added) =>
      methods({
        ...parts,
        guard: () => {
          guard?.();
          added();
        },
      }),
    withToken: (token, caller = token) =>
      methods({ ...parts, transport: transport.withToken(token), reader: `caller ${caller}` }),
    close: () => transport.close(),
  };
}

export interface ClientOptions extends TransportOptions {
  /** Of every write that names no other. Default: the operator's. */
  fieldManager?: string;
  /** Objects of a page of a list where the caller says nothing else. Default 20, whatever they hold. */
  pageSize?: number;
}

/** The client of one kube-apiserver with the connection's identity; see `KubeClient` for the errors. */
export function createClient(connection: ConnectionConfig, options: ClientOptions = {}): RootClient {
  const transport = createTransport(connection, options);
  const { fieldManager = fieldManagers.operator, pageSize = defaultPageSize } = options;
  return {
    ...methods({
      transport,
      manners: { fieldManager, pageSize, turns: new PageTurns(pagesAtOnce) },
      reader: 'process',
    }),
    connection,
    credential: transport.credential,
    connections: () => transport.connections(),
  };
}
