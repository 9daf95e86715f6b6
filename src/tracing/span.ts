/** Processes that spans are told of; value of the resource attribute `service.name`. */
export type TracedService = 'svc3-api' | 'svc3-operator' | 'svc3-runner';

export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

/** Something that has ended, with the times at which it began and ended, in milliseconds since 1970. */
export interface FinishedSpan {
  readonly service: TracedService;
  /** Few values: what tells one from another is an attribute. */
  readonly name: string;
  /** `server`: answers a request, `client`: makes one. */
  readonly kind: 'internal' | 'server' | 'client';
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first span of a trace. */
  readonly parentSpanId?: string | undefined;
  readonly startMs: number;
  readonly endMs: number;
  /** Never a secret, user data, a command or a guest's output: they leave the cluster. */
  readonly attributes: SpanAttributes;
  /** Why it failed; undefined where it did not. */
  readonly error?: string | undefined;
  readonly events?: readonly SpanEvent[];
  /** Another trace that this one belongs with. */
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
}

export interface SpanEvent {
  readonly name: string;
  readonly atMs: number;
  readonly attributes?: SpanAttributes;
}

/** Where spans go to. */
export interface Tracer {
  /** Whether a trace that begins here is recorded; the same for the same ID in every process. */
  isSampled(traceId: string): boolean;
  /** Returns at once. What there is no room for, and what the collector does not take, is dropped and counted. */
  record(span: FinishedSpan): void;
  /** Sends what waits, for a few seconds at most; never fails. */
  close(): Promise<void>;
}
