import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A span as it came, under the name of its process. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined;
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly error: string | undefined;
}

export interface Collector {
  /** For `OTEL_EXPORTER_OTLP_ENDPOINT`. */
  readonly endpoint: string;
  /** All that have come, in order; the same one twice where it came twice. */
  readonly spans: readonly ReceivedSpan[];
  /** Value of this header of the last request. */
  header(name: string): string | undefined;
  stop(): void;
}

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
  readonly doubleValue?: number;
  readonly boolValue?: boolean;
}
type Attributes = readonly { readonly key: string; readonly value: Value }[];

/** The part of a request of OTLP in JSON that is read. */
interface Request {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Attributes };
    readonly scopeSpans: readonly {
      readonly spans: readonly {
        readonly name: string;
        readonly traceId: string;
        readonly spanId: string;
        readonly parentSpanId?: string;
        readonly startTimeUnixNano: string;
        readonly endTimeUnixNano: string;
        readonly attributes: Attributes;
        readonly status: { readonly code: number; readonly message?: string };
      }[];
    }[];
  }[];
}

const msOf = (nanoseconds: string) => Number(BigInt(nanoseconds) / 1_000n) / 1_000;

function membersOf(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries(
    attributes.map(({ key, value }) => [
      key,
      value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue,
    ]),
  );
}

function spansOf({ resourceSpans }: Request): ReceivedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) => {
    const service = String(membersOf(resource.attributes)['service.name']);
    return scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, traceId, spanId, parentSpanId, startTimeUnixNano, endTimeUnixNano, ...more }) => ({
        service,
        name,
        traceId,
        spanId,
        parentSpanId: parentSpanId === '' ? undefined : parentSpanId,
        startMs: msOf(startTimeUnixNano),
        endMs: msOf(endTimeUnixNano),
        attributes: membersOf(more.attributes),
        error: more.status.code === 2 ? (more.status.message ?? '') : undefined,
      })),
    );
  });
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Takes spans by OTLP over HTTP, as a collector does, and keeps them. */
export async function startCollector(): Promise<Collector> {
  const spans: ReceivedSpan[] = [];
  let headers: IncomingMessage['headers'] = {};
  const server = createServer((request, response) => {
    headers = request.headers;
    const isRight = request.method === 'POST' && request.url === '/v1/traces';
    void textOf(request).then(
      (text) => {
        if (isRight) spans.push(...spansOf(JSON.parse(text) as Request));
        response.writeHead(isRight ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
      },
      // The process that sends them was killed.
      () => response.destroy(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    header: (name) => headers[name]?.toString(),
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}
