import { beforeEach, describe, expect, test } from 'vitest';
import { parseTraceparent } from '../../../../src/api/traceparent.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { tracedDeploy } from '../../../../src/http/server/deploytrace.ts';
import type { FinishedSpan, Tracer } from '../../../../src/tracing/span.ts';
import { aVm } from '../../controllers/vm/builders.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const given = `00-${traceId}-00f067aa0ba902b7-01`;

let spans: FinishedSpan[];
let told: (string | undefined)[];

beforeEach(() => {
  spans = [];
  told = [];
});

const aTracer = (isSampled = true): Tracer => ({
  isSampled: () => isSampled,
  record: (span) => void spans.push(span),
  close: () => Promise.resolve(),
});

function run(tracer: Tracer | undefined, traceparent: string | undefined, result: Error | boolean = true) {
  const call = { services: { tracer }, header: () => traceparent };
  return tracedDeploy(call, 'team', async (text) => {
    told.push(text);
    if (result instanceof Error) throw result;
    return { vm: aVm(), runs: result, portWarnings: [], warnings: [] };
  });
}

describe('a deploy', () => {
  test('is a span of the trace that the client names, and the VM names the span', async () => {
    await run(aTracer(), given);
    const [span] = spans;
    expect(span).toMatchObject({
      service: 'svc3-api',
      name: 'deploy',
      kind: 'server',
      traceId,
      parentSpanId: '00f067aa0ba902b7',
      attributes: {
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'k8s.namespace.name': 'team',
        'svc3.vm.name': 'web',
        'svc3.vm.uid': 'vm-uid',
      },
    });
    expect(parseTraceparent(told[0])).toEqual({ traceId, spanId: span?.spanId, isSampled: true });
  });

  test.each([undefined, '', 'nonsense', `${given}\n{"level":"fatal"}`])(
    'begins a trace of its own where the client sends %j',
    async (header) => {
      await run(aTracer(), header, false);
      expect(spans).toMatchObject([
        { parentSpanId: undefined, attributes: { 'http.response.status_code': 202 } },
      ]);
      expect(parseTraceparent(told[0])?.traceId).toBe(spans[0]?.traceId);
      expect(spans[0]?.traceId).not.toBe(traceId);
    },
  );

  test.each([
    ['the client wants none', true, given.replace(/01$/, '00')],
    ['it is one of the traces that are left out', false, undefined],
  ])('is not told where %s, and the VM says so to the operator', async (_, isSampled, header) => {
    await run(aTracer(isSampled), header);
    expect(spans).toEqual([]);
    expect(parseTraceparent(told[0])?.isSampled).toBe(false);
  });

  test('that fails has its status and reason; only what is the fault of the server is an error, and no message is told', async () => {
    const timeout = new Svc3Error('Timeout', 'hunter2', {
      details: { group: 'svc3.dev', kind: 'vms', name: 'slow' },
    });
    const invalid = new Svc3Error('Invalid', 'hunter2', { details: { kind: 'vmconfigs', name: 'small' } });
    for (const error of [timeout, invalid, new Error('hunter2')])
      await expect(run(aTracer(), given, error)).rejects.toBe(error);
    const seen = spans.map(({ attributes, error }) => [
      attributes['http.response.status_code'],
      attributes['error.type'],
      attributes['svc3.vm.name'],
      error,
    ]);
    expect(seen).toEqual([
      [504, 'Timeout', 'slow', 'Timeout'],
      [422, 'Invalid', undefined, undefined],
      [500, 'InternalError', undefined, 'InternalError'],
    ]);
    expect(JSON.stringify(spans)).not.toContain('hunter2');
  });

  test('without a tracer is only run', async () => {
    await run(undefined, given);
    expect(told).toEqual([undefined]);
  });
});
