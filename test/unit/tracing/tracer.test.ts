import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { FinishedSpan, Tracer } from '../../../src/tracing/span.ts';
import { openTracer } from '../../../src/tracing/tracer.ts';

let server: Server;
let port: number;
/** What the collector answers; undefined: nothing. */
let status: number | undefined;
let answer: object;
/** Requests that have no answer yet. */
let unanswered: ServerResponse[];
let received: { path: string; body: string }[];
let lines: string[];
let registry: Registry;

beforeEach(async () => {
  status = 200;
  answer = {};
  unanswered = [];
  received = [];
  lines = [];
  registry = new Registry();
  server = createServer((request, response) => {
    void textOf(request).then((body) => {
      received.push({ path: request.url ?? '', body });
      if (status === undefined) return unanswered.push(response);
      return response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = (server.address() as AddressInfo).port;
});

afterEach(() => {
  server.closeAllConnections();
  server.close();
});

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

const say = (_: object, message: string) => void lines.push(message);

async function opened(endpoint = `http://127.0.0.1:${port}`, ratio = 1): Promise<Tracer> {
  const tracer = await openTracer(
    { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_TRACES_SAMPLER_ARG: ratio },
    { service: 'svc3-operator', instance: 'operator-1', registry, log: { info: say, warn: say } },
  );
  if (tracer === undefined) throw new Error('there is no tracer');
  return tracer;
}

function aSpan(given: Partial<FinishedSpan> = {}): FinishedSpan {
  return {
    service: 'svc3-operator',
    name: 'placement',
    kind: 'internal',
    traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
    spanId: '00f067aa0ba902b7',
    parentSpanId: '1111111111111111',
    startMs: 1_700_000_000_000.5,
    endMs: 1_700_000_001_000,
    attributes: { 'svc3.vm.name': 'web', tries: 2 },
    ...given,
  };
}

async function counted(name: string): Promise<{ labels: object; value: number }[]> {
  const { values } = (await registry.getSingleMetric(name)?.get()) ?? { values: [] };
  return values.map(({ labels, value }) => ({ labels, value }));
}

const dropped = () => counted('svc3_trace_spans_dropped_total');

describe('the tracer', () => {
  test('is none where no collector is named', async () => {
    const parts = { service: 'svc3-api', instance: 'a', registry, log: { info: say, warn: say } } as const;
    expect(await openTracer({ OTEL_TRACES_SAMPLER_ARG: 1 }, parts)).toBeUndefined();
    expect(await registry.metrics()).toBe('\n');
  });

  test('sends spans below the path of the endpoint, each under the name of its process', async () => {
    const tracer = await opened(`http://127.0.0.1:${port}/otel/`);
    tracer.record(aSpan());
    tracer.record(
      aSpan({ service: 'svc3-runner', name: 'boot', spanId: '2222222222222222', error: 'Crashed' }),
    );
    await tracer.close();
    expect(received.map(({ path }) => path)).toEqual(['/otel/v1/traces']);
    const { resourceSpans } = JSON.parse(received[0]?.body ?? '{}') as {
      resourceSpans: {
        resource: { attributes: { key: string; value: { stringValue: string } }[] };
        scopeSpans: { spans: Record<string, unknown>[] }[];
      }[];
    };
    const byService = Object.fromEntries(
      resourceSpans.map(({ resource, scopeSpans }) => [
        resource.attributes.find(({ key }) => key === 'service.name')?.value.stringValue,
        scopeSpans[0]?.spans[0],
      ]),
    );
    expect(byService['svc3-operator']).toMatchObject({
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
      spanId: '00f067aa0ba902b7',
      parentSpanId: '1111111111111111',
      name: 'placement',
      startTimeUnixNano: '1700000000000500000',
      endTimeUnixNano: '1700000001000000000',
      attributes: [
        { key: 'svc3.vm.name', value: { stringValue: 'web' } },
        { key: 'tries', value: { intValue: 2 } },
      ],
      status: { code: 0 },
    });
    expect(byService['svc3-runner']).toMatchObject({ name: 'boot', status: { code: 2, message: 'Crashed' } });
    expect(await counted('svc3_trace_spans_exported_total')).toEqual([{ labels: {}, value: 2 }]);
    expect(await dropped()).toEqual([]);
  });

  test('says no more than a line a minute of a collector that refuses and takes in turn, and counts what was dropped', async () => {
    status = 400;
    const tracer = await opened();
    for (const n of [1, 2]) {
      tracer.record(aSpan());
      await expect
        .poll(dropped, { timeout: 20_000 })
        .toEqual([{ labels: { reason: 'collector' }, value: n }]);
    }
    const failed = 'the collector takes no traces; spans are dropped until it does';
    expect(lines).toEqual(['traces go to the collector', failed]);
    status = 200;
    tracer.record(aSpan());
    await expect
      .poll(() => counted('svc3_trace_spans_exported_total'), { timeout: 20_000 })
      .toEqual([{ labels: {}, value: 1 }]);
    status = 400;
    tracer.record(aSpan());
    await expect.poll(dropped, { timeout: 20_000 }).toEqual([{ labels: { reason: 'collector' }, value: 3 }]);
    // It fails as it was said to.
    expect(lines).toEqual(['traces go to the collector', failed]);
    status = 200;
    tracer.record(aSpan());
    await tracer.close();
    expect(lines.slice(2)).toEqual(['the collector takes traces again']);
  }, 60_000);

  test('counts as dropped what a collector refuses of spans that it answers 200 to, and says so once', async () => {
    // int64 is text in JSON; the exporters of some collectors write numbers.
    answer = { partialSuccess: { rejectedSpans: '1', errorMessage: 'too old' } };
    const tracer = await opened();
    const takes = async (rejected: number, taken: number) => {
      tracer.record(aSpan());
      tracer.record(aSpan({ spanId: '2222222222222222' }));
      const expected = [{ labels: { reason: 'collector' }, value: rejected }];
      await expect.poll(dropped).toEqual(expected);
      await expect
        .poll(() => counted('svc3_trace_spans_exported_total'))
        .toEqual([{ labels: {}, value: taken }]);
    };
    await takes(1, 1);
    answer = { partialSuccess: { rejectedSpans: 3 } };
    await takes(3, 1);
    // A word about spans that it took.
    answer = { partialSuccess: { rejectedSpans: '0', errorMessage: 'use another version' } };
    await takes(3, 3);
    const once = 'the collector refuses some spans, which are lost; this is said once, a metric counts them';
    expect(lines).toEqual(['traces go to the collector', once]);
    await tracer.close();
  });

  test('holds no more than its queue while the collector is silent, and ends all the same', async () => {
    status = undefined;
    const tracer = await opened();
    for (let i = 0; i < 3_000; i += 1) tracer.record(aSpan());
    expect(await dropped()).toEqual([{ labels: { reason: 'queue' }, value: 3_000 - 2_048 }]);
    await tracer.close();
    expect(await dropped()).toContainEqual({ labels: { reason: 'collector' }, value: 2_048 });
    tracer.record(aSpan());
    expect(await dropped()).toContainEqual({ labels: { reason: 'queue' }, value: 3_001 - 2_048 });
  }, 30_000);

  test('has counted what it gave up at its end: an answer after that changes nothing', async () => {
    status = undefined;
    const tracer = await opened();
    tracer.record(aSpan());
    await tracer.close();
    const given = [{ labels: { reason: 'collector' }, value: 1 }];
    expect(await dropped()).toEqual(given);
    expect(unanswered).toHaveLength(1);
    for (const response of unanswered) response.writeHead(400).end();
    // The answer is there before this one.
    status = 200;
    await fetch(`http://127.0.0.1:${port}`, { method: 'POST' });
    expect(await dropped()).toEqual(given);
    expect(lines).toEqual(['traces go to the collector']);
  });

  test('takes the share of traces that it is told, the same ones in every process', async () => {
    const [none, all, one, other] = await Promise.all(
      [0, 1, 0.5, 0.5].map((ratio) => {
        registry = new Registry();
        return opened(undefined, ratio);
      }),
    );
    const ids = Array.from(
      { length: 200 },
      (_, i) => `${(i * 21_474_836).toString(16).padStart(8, '0')}${'0'.repeat(23)}1`,
    );
    const taken = (tracer: Tracer | undefined) => ids.filter((id) => tracer?.isSampled(id));
    expect(taken(none)).toEqual([]);
    expect(taken(all)).toEqual(ids);
    expect(taken(one)).toEqual(taken(other));
    expect(taken(one).length).toBeGreaterThan(50);
    expect(taken(one).length).toBeLessThan(150);
    await Promise.all([none, all, one, other].map(async (tracer) => tracer?.close()));
  });

  test('refuses certificates that cannot be read, with the name of the setting', async () => {
    const settings = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector:4318',
      OTEL_EXPORTER_OTLP_CERTIFICATE: '/nowhere/ca.crt',
      OTEL_TRACES_SAMPLER_ARG: 1,
    };
    const parts = { service: 'svc3-api', instance: 'a', registry, log: { info: say, warn: say } } as const;
    await expect(openTracer(settings, parts)).rejects.toThrow(
      /^OTEL_EXPORTER_OTLP_CERTIFICATE: cannot be read/,
    );
  });
});
