/** What svc3 asks of a collector: the OpenTelemetry Collector does it, and so does the stand-in of the other tests. */
import { Registry } from 'prom-client';
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { annotations, productVersion } from '../../../src/api/meta.ts';
import { firstStart } from '../../../src/controllers/vm/starts/startcontext.ts';
import { startSpans } from '../../../src/controllers/vm/starts/startspans.ts';
import { tracedDeploy } from '../../../src/http/server/deploytrace.ts';
import { createLogger } from '../../../src/telemetry.ts';
import type { FinishedSpan, TracedService, Tracer } from '../../../src/tracing/span.ts';
import { openTracer } from '../../../src/tracing/tracer.ts';
import type { Deployed } from '../../../src/usecases/deploy.ts';
import { type Collector, type CollectorOptions, startCollector } from '../../support/collector.ts';
import { ensureTools } from '../../support/controlplane.ts';
import { startOtelCollector } from '../../support/otelcollector.ts';
import { treeOf, treeOfStart } from '../../support/spantree.ts';
import { aPod, aVm, runnerState, runningStatus } from '../../unit/controllers/vm/builders.ts';

const clientSpan = '00f067aa0ba902b7';
const clientTrace = '4bf92f3577b34da6a3ce929d0e0e4736';
const token = 'of-the-collector';
const takesNone = 'the collector takes no traces; spans are dropped until it does';
const takesAgain = 'the collector takes traces again';
/** When the VM was made, as `aVm` says. */
const created = Date.parse('2026-11-01T10:00:00Z');
/** An export is given up after a second. */
const givenUp = { timeout: 60_000, interval: 100 };

let registry: Registry;
let log: string;

// The first time it is compiled, which takes minutes.
beforeAll(() => ensureTools('collector'), 900_000);

beforeEach(() => {
  registry = new Registry();
  log = '';
  vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '1000');
});

afterEach(() => void vi.unstubAllEnvs());

/** A process's tracer, with these settings beside the endpoint. */
async function opened(
  collector: Pick<Collector, 'endpoint'>,
  {
    service = 'svc3-operator',
    login,
    caFile,
  }: { service?: TracedService; login?: string; caFile?: string } = {},
): Promise<Tracer> {
  if (login !== undefined) vi.stubEnv('OTEL_EXPORTER_OTLP_HEADERS', `authorization=Bearer%20${login}`);
  if (caFile !== undefined) vi.stubEnv('OTEL_EXPORTER_OTLP_CERTIFICATE', caFile);
  const destination = { write: (line: string) => void (log += line) };
  const tracer = await openTracer(
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.endpoint,
      OTEL_EXPORTER_OTLP_CERTIFICATE: caFile,
      OTEL_TRACES_SAMPLER_ARG: 1,
    },
    {
      service,
      instance: `${service}-0`,
      registry: service === 'svc3-operator' ? registry : new Registry(),
      log: createLogger({ name: service, level: 'info', destination }),
    },
  );
  if (tracer === undefined) throw new Error('there is no tracer');
  onTestFinished(() => tracer.close());
  return tracer;
}

/** What the log says of the collector, in order. */
const said = (): string[] =>
  log
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { msg: string }).msg)
    .filter((message) => message !== 'traces go to the collector');

async function counted(name: string, reason?: string): Promise<number> {
  const { values } = (await registry.getSingleMetric(`svc3_trace_spans_${name}_total`)?.get()) ?? {
    values: [],
  };
  return values.find(({ labels }) => labels['reason'] === reason)?.value ?? 0;
}
const lost = () => counted('dropped', 'collector');

let made = 0;
function aSpan(given: Partial<FinishedSpan> = {}): FinishedSpan {
  made += 1;
  return {
    service: 'svc3-operator',
    name: 'placement',
    kind: 'internal',
    traceId: clientTrace,
    spanId: made.toString(16).padStart(16, '0'),
    startMs: created,
    endMs: created + 1,
    attributes: {},
    ...given,
  };
}

/** The spans that the operator tells of the VM's start in a pod. */
function spansOfStart(
  traceparent: string,
  more: Partial<Parameters<typeof startSpans>[0]> = {},
): FinishedSpan[] {
  const { metadata } = aVm();
  const vm = aVm({ metadata: { ...metadata, annotations: { [annotations.traceparent]: traceparent } } });
  const context = firstStart(vm, () => true);
  if (context === undefined) throw new Error('the start is not recorded');
  return startSpans({
    context,
    vm,
    pod: aPod({
      nodeName: 'n1',
      metadata: { creationTimestamp: '2026-11-01T10:00:00Z' },
      status: runningStatus(true),
    }),
    seen: {
      waitsMs: created + 200.5,
      made: { startMs: created + 280, endMs: created + 300 },
      boundMs: created + 450,
      refusals: [
        { name: 'unschedulable', atMs: created + 250, attributes: { 'svc3.reason': '1 node is full' } },
      ],
    },
    runner: runnerState({
      firstStart: { startedAtMs: created + 1_300, diskMs: 500, machineMs: 1_000, guestMs: 4_000 },
    }),
    endMs: created + 7_000,
    outcome: 'Running',
    hasFailed: false,
    ...more,
  });
}

/** A start as api and operator tell it, each by its own tracer: what they have told. */
async function tellStart(api: Tracer, operator: Tracer): Promise<FinishedSpan[]> {
  const told: FinishedSpan[] = [];
  const through = (tracer: Tracer): Tracer => ({
    ...tracer,
    record(span) {
      told.push(span);
      tracer.record(span);
    },
  });
  let given = '';
  const header = () => `00-${clientTrace}-${clientSpan}-01`;
  await tracedDeploy({ services: { tracer: through(api) }, header }, 'team', (traceparent = '') => {
    given = traceparent;
    return Promise.resolve<Deployed>({ vm: aVm(), portWarnings: [], warnings: [], runs: true });
  });
  for (const span of spansOfStart(given)) through(operator).record(span);
  await Promise.all([api.close(), operator.close()]);
  return told;
}

const byId = (one: { spanId: string }, other: { spanId: string }) => one.spanId.localeCompare(other.spanId);

/** A span as the collector has it. */
function received(span: FinishedSpan, own: TracedService) {
  const { parentSpanId, error, events = [], links = [] } = span;
  const instance = span.service === own ? { 'service.instance.id': `${own}-0` } : {};
  const resource = {
    'service.name': span.service,
    'service.namespace': 'svc3',
    'service.version': productVersion,
    ...instance,
  };
  return { ...span, parentSpanId, error, events, links, resource };
}

describe.each<[string, (options: CollectorOptions) => Promise<Collector>]>([
  ['the stand-in', startCollector],
  ['the OpenTelemetry Collector', startOtelCollector],
])('%s', (_, start) => {
  async function started(options: CollectorOptions = {}): Promise<Collector> {
    const collector = await start(options);
    onTestFinished(() => collector.stop());
    return collector;
  }

  test.each<[string, CollectorOptions]>([
    ['HTTP', {}],
    ['HTTPS, with a login', { tls: true, token }],
  ])('gets the start of a VM as one whole trace, by %s', async (_how, options) => {
    const collector = await started(options);
    const settings = {
      ...(collector.caFile === undefined ? {} : { caFile: collector.caFile }),
      ...(options.token === undefined ? {} : { login: options.token }),
    };
    const api = await opened(collector, { ...settings, service: 'svc3-api' });
    const told = await tellStart(api, await opened(collector, settings));
    const spans = collector.spans.toSorted(byId);
    expect(spans).toEqual(
      told
        .toSorted(byId)
        .map((span) => received(span, span.name === 'deploy' ? 'svc3-api' : 'svc3-operator')),
    );
    expect(treeOf(spans)).toEqual(treeOfStart);
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([clientTrace]));
    expect(said()).toEqual([]);
  });

  test('gets a start that failed, with its reason and the start that it follows', async () => {
    const collector = await started();
    const operator = await opened(collector);
    const first = { traceId: clientTrace, spanId: '1111111111111111' };
    const context = {
      traceId: '2'.repeat(32),
      spanId: '3'.repeat(16),
      parentSpanId: undefined,
      isLater: true,
      first,
    };
    const told = spansOfStart(`00-${clientTrace}-${clientSpan}-01`, {
      context,
      hasFailed: true,
      outcome: 'DiskFileMissing',
    });
    for (const span of told) operator.record(span);
    await operator.close();
    expect(collector.spans.find(({ name }) => name === 'start VM')).toMatchObject({
      error: 'DiskFileMissing',
      parentSpanId: undefined,
      links: [first],
    });
    expect(collector.spans.toSorted(byId)).toEqual(
      told.toSorted(byId).map((span) => received(span, 'svc3-operator')),
    );
  });

  test.each<[string, { login?: string }]>([
    ['without its login', {}],
    ['with another login', { login: 'of-somebody-else' }],
  ])('takes nothing %s; the log says so once, without what it was sent', async (_how, settings) => {
    const collector = await started({ token });
    const operator = await opened(collector, settings);
    for (const n of [1, 2]) {
      operator.record(aSpan());
      await expect.poll(lost, givenUp).toBe(n);
    }
    expect(collector.spans).toEqual([]);
    expect(said()).toEqual([takesNone]);
    expect(log).toContain('Unauthorized');
    expect(log).not.toContain('of-somebody-else');
  });

  test('is sent nothing where its certificate is signed by nobody known; the log says so once', async () => {
    const collector = await started({ tls: true });
    const operator = await opened(collector, { login: token });
    for (const n of [1, 2]) {
      operator.record(aSpan());
      await expect.poll(lost, givenUp).toBe(n);
    }
    expect(collector.spans).toEqual([]);
    expect(said(), log).toEqual([takesNone]);
    expect(log).toContain('self-signed certificate');
    expect(log).not.toContain(token);
  });

  test.each([429, 503, 400] as const)(
    'that answers %i: one line in the log, until it takes spans again',
    async (status) => {
      const collector = await started();
      const operator = await opened(collector);
      await collector.refuse(status);
      for (const n of [1, 2, 3]) {
        operator.record(aSpan());
        await expect.poll(lost, givenUp).toBe(n);
      }
      expect(said()).toEqual([takesNone]);
      await collector.refuse(undefined);
      const last = aSpan();
      operator.record(last);
      await expect.poll(() => counted('exported'), givenUp).toBe(1);
      // Within the minute of the line before it is said at the end.
      await operator.close();
      expect(said()).toEqual([takesNone, takesAgain]);
      expect(collector.spans.map(({ spanId }) => spanId)).toEqual([last.spanId]);
    },
  );

  test('that is away: one line in the log', async () => {
    const collector = await started();
    const operator = await opened(collector);
    await collector.stop();
    for (const n of [1, 2]) {
      operator.record(aSpan());
      await expect.poll(lost, givenUp).toBe(n);
    }
    expect(said()).toEqual([takesNone]);
    expect(log).toContain('ECONNREFUSED');
  });

  test('that answers nothing holds nobody up, and no more than the queue waits for it', async () => {
    const collector = await started();
    const operator = await opened(collector);
    collector.pause();
    for (let i = 0; i < 5_000; i += 1) operator.record(aSpan());
    expect(await counted('dropped', 'queue')).toBe(5_000 - 2_048);
    await expect.poll(lost, givenUp).toBe(2_048);
    expect(said()).toEqual([takesNone]);
    collector.resume();
    operator.record(aSpan());
    await expect.poll(() => counted('exported'), givenUp).toBe(1);
    await operator.close();
    expect(said()).toEqual([takesNone, takesAgain]);
  });

  test('that answers nothing is waited for no longer than three seconds at the end', async () => {
    vi.stubEnv('OTEL_EXPORTER_OTLP_TIMEOUT', '60000');
    const collector = await started();
    const operator = await opened(collector);
    collector.pause();
    for (let i = 0; i < 1_000; i += 1) operator.record(aSpan());
    await operator.close();
    expect(await lost()).toBe(1_000);
  });
});
