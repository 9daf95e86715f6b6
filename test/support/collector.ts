import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import {
  createServer as createHttpServer,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { selfSigned } from '../../src/http/server/certificate.ts';
import type { SpanEvent } from '../../src/tracing/span.ts';
import { temporaryFolder } from './controlplane.ts';

/** A span as it came, under the name of its process. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  readonly kind: 'internal' | 'server' | 'client';
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly error: string | undefined;
  readonly events: readonly SpanEvent[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** Attributes of the process. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface CollectorOptions {
  /** It shows a certificate that nobody but `caFile` vouches for. */
  readonly tls?: boolean;
  /** What a request must have as its bearer token. */
  readonly token?: string;
}

/** What the stand-in below and the real one (`otelcollector.ts`) do alike. */
export interface Collector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  /** For `OTEL_EXPORTER_OTLP_CERTIFICATE`; undefined without TLS. */
  readonly caFile: string | undefined;
  /** All that have come, in order; the same one twice where it came twice. */
  readonly spans: readonly ReceivedSpan[];
  /** From now on it takes no spans and answers with this status; undefined: it takes them. */
  refuse(status: 400 | 429 | 503 | undefined): Promise<void>;
  /** From now on it answers nothing, though it can be reached. */
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

interface Value {
  readonly stringValue?: string;
  /** An int64 is text in JSON, though not everybody writes it so. */
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}
type Attributes = readonly { readonly key: string; readonly value: Value }[];

interface JsonSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: Attributes;
  readonly events?: readonly {
    readonly name: string;
    readonly timeUnixNano: string;
    readonly attributes?: Attributes;
  }[];
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status?: { readonly code?: number; readonly message?: string };
}

/** The part of a request of OTLP in JSON that is read. */
interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly { readonly spans: readonly JsonSpan[] }[];
  }[];
}

const msOf = (nanoseconds: string) => Number(BigInt(nanoseconds) / 1_000n) / 1_000;

function membersOf(attributes: Attributes = []): SpanEvent['attributes'] & object {
  return Object.fromEntries(
    attributes.map(({ key, value: { stringValue, intValue, doubleValue, boolValue } }) => [
      key,
      stringValue ??
        (intValue === undefined ? undefined : Number(intValue)) ??
        doubleValue ??
        boolValue ??
        '',
    ]),
  );
}

const kinds = ['internal', 'server', 'client'] as const;

function spanOf(span: JsonSpan, resource: ReceivedSpan['resource']): ReceivedSpan {
  const { name, kind, traceId, spanId, parentSpanId = '', status, events = [], links = [] } = span;
  return {
    service: String(resource['service.name']),
    name,
    kind: kinds[kind - 1] ?? 'internal',
    traceId,
    spanId,
    parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
    startMs: msOf(span.startTimeUnixNano),
    endMs: msOf(span.endTimeUnixNano),
    attributes: membersOf(span.attributes),
    error: status?.code === 2 ? (status.message ?? '') : undefined,
    events: events.map((event) => ({
      name: event.name,
      atMs: msOf(event.timeUnixNano),
      attributes: membersOf(event.attributes),
    })),
    links: links.map((link) => ({ traceId: link.traceId, spanId: link.spanId })),
    resource,
  };
}

/** The spans of a request of OTLP in JSON. */
export function spansOf(json: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(json) as Request;
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const members = membersOf(resource.attributes);
    return scopeSpans.flatMap(({ spans }) => spans.map((span) => spanOf(span, members)));
  });
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Files of a new certificate for the loopback address, and what is in them. */
export async function collectorPki() {
  const { cert, key } = await selfSigned(['localhost', '127.0.0.1']);
  const folder = temporaryFolder();
  const [certFile, keyFile] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
  await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]);
  return { cert, key, certFile, keyFile };
}

/**
 * Takes spans by OTLP over HTTP, as a collector does, and keeps them. It cannot show what a real one takes and refuses;
 * test/integration/tracing/collectors.test.ts does.
 */
export async function startCollector({ tls = false, token }: CollectorOptions = {}): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  let refusal: number | undefined;
  let isPaused = false;

  function statusFor({ method, url, headers }: IncomingMessage): number {
    if (method !== 'POST' || url !== '/v1/traces') return 404;
    if (token !== undefined && headers.authorization !== `Bearer ${token}`) return 401;
    return refusal ?? 200;
  }

  function serve(request: IncomingMessage, response: ServerResponse): void {
    void textOf(request).then(
      (text) => {
        if (isPaused) return;
        const status = statusFor(request);
        if (status === 200) spans.push(...spansOf(text));
        response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
      },
      // The process that sends them was killed.
      () => response.destroy(),
    );
  }

  const pki = tls ? await collectorPki() : undefined;
  const server: Server = pki === undefined ? createHttpServer(serve) : createHttpsServer(pki, serve);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `${tls ? 'https' : 'http'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    caFile: pki?.certFile,
    spans,
    refuse(status) {
      refusal = status;
      return Promise.resolve();
    },
    pause: () => void (isPaused = true),
    resume: () => void (isPaused = false),
    stop() {
      server.closeAllConnections();
      server.close();
      return Promise.resolve();
    },
  };
}
