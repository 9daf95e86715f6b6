/** What users of the Kubernetes client see of it. Types only: importing this costs nothing at run time. */

import type { Created, KubeObject, Resource, Submitted } from '../api/object.ts';

export interface ListOptions<T extends KubeObject = KubeObject> {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Objects of a page; the client follows `continue` by itself. Default: that of the client. More only of what no tenant makes. */
  pageSize?: number;
  /** Drops what the caller does not need, page by page. */
  transform?: (object: T) => T;
  signal?: AbortSignal;
}

export interface WriteOptions {
  dryRun?: boolean;
  signal?: AbortSignal;
}

export interface ApplyOptions extends WriteOptions {
  /** Default `svc3`. */
  fieldManager?: string;
  /** Take over fields of other managers. Default true (controllers own what they write). */
  force?: boolean;
  subresource?: string;
}

export interface DeleteOptions extends WriteOptions {
  uid?: string;
  resourceVersion?: string;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
  gracePeriodSeconds?: number;
}

export interface RawRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute path, e.g. `/api/v1/namespaces`. */
  path: string;
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  /** Default application/json; patches name theirs. */
  contentType?: string;
  headers?: Record<string, string>;
  /** Milliseconds for the whole call. Default 30,000. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** Called with each `Warning` text of the reply. */
  onWarning?: (text: string) => void;
  /** Sending it twice does no more than sending it once. Default: GET and server-side apply. */
  idempotent?: boolean;
  /** Each try is made by it when it is its turn; the backoff between tries takes no turn. */
  inTurn?: <T>(attempt: () => Promise<T>) => Promise<T>;
  /** Shortens the reply's text before it is parsed; it may work in place. */
  shorten?: (text: Buffer) => Buffer;
}

export interface RawResponse<T = unknown> {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: T;
}

export interface StreamRequest extends RawRequest {
  /** Milliseconds without a byte after which the stream fails. Default 150,000. */
  silenceMs?: number;
  /** Cut by the client when the server wants the connection to end: for watches, which resume. Default false. */
  movable?: boolean;
}

/** A reply whose body arrives over time: a watch, a log. */
export interface StreamResponse {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  /** Errors of the connection come out of it as `Svc3Error`. */
  body: AsyncIterable<Uint8Array>;
  /** Ends it at once. */
  cancel(): void;
}

/**
 * The client of one kube-apiserver with one identity. Every method throws `Svc3Error` whose reason is the `Status`
 * reason of the server (NotFound, AlreadyExists, Conflict, Forbidden, Invalid, …) and whose message is the server's.
 */
export interface KubeClient {
  get<T extends KubeObject>(resource: Resource<T>, name: string, namespace?: string): Promise<T>;
  /** All objects, without their managedFields. */
  list<T extends KubeObject>(
    resource: Resource<T>,
    options?: ListOptions<T>,
  ): Promise<{ items: T[]; resourceVersion: string }>;
  create<T extends KubeObject>(
    resource: Resource<T>,
    object: Created<T>,
    options?: WriteOptions & { subresource?: string; fieldManager?: string },
  ): Promise<T>;
  /** Server-side apply; `object` needs metadata.name (and namespace). */
  apply<T extends KubeObject>(
    resource: Resource<T>,
    object: Submitted<T>,
    options?: ApplyOptions,
  ): Promise<T>;
  patch<T extends KubeObject>(
    resource: Resource<T>,
    key: { name: string; namespace?: string },
    patch: { type: 'merge' | 'json' | 'strategic'; body: unknown },
    options?: WriteOptions & { subresource?: string; fieldManager?: string },
  ): Promise<T>;
  replace<T extends KubeObject>(
    resource: Resource<T>,
    object: T,
    options?: WriteOptions & { subresource?: string },
  ): Promise<T>;
  /** NotFound is thrown, callers that do not mind catch it with `isSvc3Error(e, 'NotFound')`. */
  delete<T extends KubeObject>(
    resource: Resource<T>,
    key: { name: string; namespace?: string },
    options?: DeleteOptions,
  ): Promise<void>;
  request<T = unknown>(request: RawRequest): Promise<RawResponse<T>>;
  /** A reply of 4xx or 5xx is thrown; `timeoutMs` bounds the time until the headers. */
  stream(request: StreamRequest): Promise<StreamResponse>;
  /** The same client, but `guard` runs before every attempt of every write and may throw. */
  withGuard(guard: () => void): KubeClient;
  /**
   * A client with another identity over the same address and CA; the caller's token is all it has.
   * @param caller - who takes turns with others at reading lists, whatever the token. Default: whoever has the token
   */
  withToken(token: string, caller?: string): KubeClient;
  close(): Promise<void>;
}

export type Change<T extends KubeObject> =
  | { kind: 'added'; object: T }
  | { kind: 'updated'; object: T; old: T }
  /** `isFromList`: nobody said that it was deleted, a new list is without it; etcd may have been restored from a backup. */
  | { kind: 'deleted'; object: T; isFromList?: true };

export type IndexFunction<T extends KubeObject> = (object: T) => readonly string[];

/** A cache of one resource kept true by list and watch. Objects are frozen by convention: never change one. */
export interface Informer<T extends KubeObject> {
  readonly resource: Resource<T>;
  get(name: string, namespace?: string): T | undefined;
  list(namespace?: string): readonly T[];
  byIndex(index: string, value: string): readonly T[];
  /** Before `run`; an index of the same name stays. */
  addIndexes(indexes: Record<string, IndexFunction<T>>): void;
  /** Register before `run`. Handlers only enqueue keys or update counters; they run in order and must not throw. */
  onChange(handler: (change: Change<T>) => void): void;
  /** Runs until the signal; resolves when it has ended. */
  run(signal: AbortSignal): Promise<void>;
  hasSynced(): boolean;
  /** Resolves after the first complete list. */
  synced(): Promise<void>;
  /** Since the last list, event or bookmark; undefined before the first list. In milliseconds. */
  silenceMs(): number | undefined;
}

/** The part of a pino logger that is used here. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

export interface InformerOptions<T extends KubeObject> {
  client: KubeClient;
  resource: Resource<T>;
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  indexes?: Record<string, IndexFunction<T>>;
  /** Drops what nobody reads before an object is kept. Default: drops managedFields. */
  transform?: (object: T) => T;
  /** `transform` reads metadata.managedFields. Default false: watches may leave it out. */
  keepManagedFields?: boolean;
  log?: Log;
  tuning?: Partial<ReflectorTuning>;
}

/** Times of a reflector, in milliseconds; only tests change them. */
export interface ReflectorTuning {
  /** A watch asks the server for an end after a random time between these. */
  watchMinMs: number;
  watchMaxMs: number;
  /** A watch without a byte for so long is dead. */
  silenceMs: number;
  backoffMinMs: number;
  backoffMaxMs: number;
  pageSize: number;
}

/** Writes Kubernetes Events (events.k8s.io/v1 semantics, duplicates counted up); never throws. */
export interface EventRecorder {
  event(object: KubeObject, event: { type: 'Normal' | 'Warning'; reason: string; message: string }): void;
}

/** What a reconcile pass returns; nothing means: wait for the next change. */
export interface ReconcileResult {
  requeueAfterMs?: number;
}
