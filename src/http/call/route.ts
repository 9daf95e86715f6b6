import type { AccessAttributes, Caller } from './caller.ts';
import type { JsonText } from './jsontext.ts';
import type { Readable } from 'node:stream';
import type * as z from 'zod';
import type { ReadonlyDeep } from '../../wire/readonly.ts';
import type { Services } from './services.ts';

/**
 * Who may call a route. `open`: anybody. `checked`: the authorizer is asked before anything else happens.
 * `native`: the write itself goes to kube-apiserver with the caller's token and is judged there; the authorizer is
 * asked before a body is read, so that those without the right take no memory, and before a refusal of our own is shown,
 * so that it tells them nothing.
 */
export type Permission =
  /** A body is read of everybody, within memory that is for such bodies alone (`Limits`): it is to have a small `maxBodyBytes`. */
  | { readonly kind: 'open' }
  /**
   * Needs a caller; the handler runs other routes, which ask for their own rights. A body is read of everybody with a token, since it says what
   * these are: only the fair division of memory (`ByteBudget`) keeps it from taking that of others.
   */
  | { readonly kind: 'delegated' }
  | {
      readonly kind: 'checked' | 'native';
      readonly group: string;
      readonly resource: string;
      readonly subresource?: string;
      readonly verb: AccessAttributes['verb'];
      readonly scope: 'namespace' | 'cluster';
      /** The path parameter that holds the object's name. */
      readonly name?: string;
    };

export interface Call<P, Q, B> {
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  readonly caller: Caller;
  readonly services: Services;
  /** Aborted when the client has hung up. */
  readonly signal: AbortSignal;
  /** Aborted when this process starts to drain. */
  readonly drain: AbortSignal;
  /** The address the client used: `https://host[:port]`. */
  readonly baseUrl: string;
  /** The client's, for limits; in no log. */
  readonly address: string;
  readonly accept?: string;
  /** A header of the request, by its name in lower case. */
  header(name: string): string | undefined;
  /** The request's body of an upload. */
  readonly upload?: Upload;
  /** Adds a `Warning` header to the reply. */
  warn(text: string): void;
}

export interface Upload {
  readonly contentType: string;
  readonly contentLength?: number;
  readonly stream: Readable;
  /** Whether the client hung up before the end of the body. */
  isCut(): boolean;
  /** The parts of a multipart body, in order; a file's content has to be read before the next part comes. */
  parts?(): AsyncIterable<UploadPart>;
}

export type UploadPart =
  | { readonly kind: 'field'; readonly name: string; readonly value: string }
  | { readonly kind: 'file'; readonly name: string; readonly fileName: string; readonly content: Readable };

/** As what an upload may be sent. */
export interface UploadTypes {
  /** `multipart/form-data` with these parts; absent: no form. */
  readonly form?: z.ZodType;
  /** The bytes themselves, whatever type but `multipart` the client says. */
  readonly raw: boolean;
}

/** What a route may answer, by HTTP status; without a schema: bytes. */
export type Replies = Readonly<Record<number, { readonly description: string; readonly schema?: z.ZodType }>>;

type Head<Code extends string | number> = {
  readonly headers?: Readonly<Record<string, string>>;
} & (`${Code}` extends '200' ? { readonly status?: 200 } : { readonly status: NumberOf<Code> });

/** A key of an object as the number that it was written as. */
type NumberOf<Key extends string | number> = `${Key}` extends `${infer N extends number}` ? N : never;

type BodyOf<D> = D extends { readonly schema: infer S extends z.ZodType }
  ?
      | { readonly body: ReadonlyDeep<z.output<S>> }
      | { readonly json: JsonText<z.output<S>> }
      // Another representation than the schema's, which the client has asked for.
      | { readonly raw: Buffer }
  : Pick<Reply, 'body' | 'json' | 'stream' | 'raw'>;

/** What a handler returns: a body that one of the route's replies describes, with that reply's status. */
export type ReplyOf<R extends Replies> = number extends keyof R
  ? Reply
  : { [C in keyof R & (string | number)]: Head<C> & BodyOf<R[C]> }[keyof R & (string | number)];

/** A reply of any route. */
export interface Reply {
  readonly status?: number;
  readonly body?: unknown;
  /** JSON that is already text; goes before `body`. */
  readonly json?: string | Buffer;
  readonly stream?: Readable;
  /** Bytes of the type that `headers` names. */
  readonly raw?: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route<
  P extends z.ZodType = z.ZodType,
  Q extends z.ZodType = z.ZodType,
  B extends z.ZodType = z.ZodType,
> {
  /** Name of the operation in the OpenAPI document, metrics and logs. */
  readonly id: string;
  readonly tag: string;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With parameters in braces, as OpenAPI writes them. */
  readonly path: string;
  readonly summary: string;
  readonly params: P;
  readonly query: Q;
  readonly body: B;
  /** `upload`: the body is a stream and not JSON. */
  readonly bodyKind: 'none' | 'json' | 'upload';
  /** Headers of the request that are its own, as an object of texts and numbers; its handler reads them by `Call.header`. */
  readonly headers?: z.ZodType | undefined;
  /** Of an upload; other types are refused. Absent where other routes, which say it, are run with the body. */
  readonly takes?: UploadTypes | undefined;
  /** Of a JSON body; default 1 MiB. */
  readonly maxBodyBytes?: number;
  readonly replies: Replies;
  readonly permission: Permission;
  /** May wait for minutes: has its own limit of concurrent requests. */
  readonly longRunning?: boolean;
  /** Refuses a request by its headers, before a body is read. @throws Svc3Error */
  precondition?(call: Pick<Call<unknown, unknown, unknown>, 'header' | 'services'>): void;
  /** An example body for the browsable page. */
  readonly example?: unknown;
  handler(call: Call<z.output<P>, z.output<Q>, z.output<B>>): Promise<Reply> | Reply;
}

/** A route whose handler may answer only what `replies` describes. */
interface TypedRoute<
  P extends z.ZodType,
  Q extends z.ZodType,
  B extends z.ZodType,
  R extends Replies,
> extends Omit<Route<P, Q, B>, 'replies' | 'handler'> {
  readonly replies: R;
  handler(call: Call<z.output<P>, z.output<Q>, z.output<B>>): Promise<ReplyOf<R>> | ReplyOf<R>;
}

/** Types a route's handler, and what it answers, from its schemas. */
export function defineRoute<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends Replies>(
  route: TypedRoute<P, Q, B, R>,
): Route<P, Q, B> {
  return route;
}
