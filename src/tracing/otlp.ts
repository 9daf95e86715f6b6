/**
 * The only file that imports OpenTelemetry. It is loaded where tracing is on and nowhere else (`openTracer`): it stays out of
 * the processes' bundles, in one of its own.
 */
import {
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type HrTime,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes, type Resource } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  type ReadableSpan,
  SamplingDecision,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace';
import { sayingChanges } from './changes.ts';
import type { FinishedSpan, TracedService, Tracer } from './span.ts';

export interface OtlpOptions {
  /** URL that spans are posted to. */
  readonly url: string;
  readonly sampleRatio: number;
  /** Value of `service.version`. */
  readonly version: string;
  /** Value of `service.instance.id`: of the spans of this process, not of those that it tells for a runner. */
  readonly instance: string;
  readonly service: TracedService;
  exported(spans: number): void;
  dropped(reason: 'queue' | 'collector', spans: number): void;
  /** The collector has stopped taking spans, or takes them again: once for each change, and no more than one of the two a minute. */
  failed(error: Error): void;
  recovered(): void;
  /** The collector has not taken some of the spans of an export; once, since the next export may be whole again, and so on. */
  refused(error: Error): void;
}

type Result = Parameters<Parameters<SpanExporter['export']>[1]>[0];

/** `ExportResultCode.SUCCESS` of a package that is none of ours to import. */
const success = 0;

/** Spans that wait to be sent, or are under way; some 2 KiB each. */
const mostWaiting = 2_048;
const batchSize = 256;
/** Who looks at a deploy that has just ended finds it. */
const delayMs = 1_000;
/** A collector that has not answered by then has not taken them, in milliseconds. */
const exportMs = 15_000;
/** The process ends soon after (`SVC3_SHUTDOWN_GRACE_MS`), in milliseconds. */
const closeMs = 3_000;

export function createOtlpTracer(options: OtlpOptions): Tracer {
  const sampler = new TraceIdRatioBasedSampler(options.sampleRatio);
  const resources = new Map<TracedService, Resource>();
  const exporter = counting(new OTLPTraceExporter({ url: options.url }), options);
  const processor = new BatchSpanProcessor({
    exporter,
    maxQueueSize: mostWaiting,
    maxExportBatchSize: batchSize,
    scheduledDelayMillis: delayMs,
    exportTimeoutMillis: exportMs,
  });
  let isClosed = false;

  function resourceOf(service: TracedService): Resource {
    let resource = resources.get(service);
    if (resource === undefined) {
      const own = service === options.service ? { 'service.instance.id': options.instance } : {};
      resource = resourceFromAttributes({
        'service.name': service,
        'service.namespace': 'svc3',
        'service.version': options.version,
        ...own,
      });
      resources.set(service, resource);
    }
    return resource;
  }

  return {
    isSampled: (traceId) =>
      sampler.shouldSample(ROOT_CONTEXT, traceId).decision === SamplingDecision.RECORD_AND_SAMPLED,
    record(span) {
      // The processor drops without a word what it has no room for.
      if (isClosed || exporter.waiting() >= mostWaiting) return options.dropped('queue', 1);
      exporter.add();
      processor.onEnd(readable(span, resourceOf(span.service), options.version));
    },
    async close() {
      isClosed = true;
      const late = Promise.withResolvers<void>();
      const timer = setTimeout(late.resolve, closeMs);
      await Promise.race([processor.shutdown().catch(() => undefined), late.promise]);
      clearTimeout(timer);
      // What was not sent by now never is.
      exporter.giveUp();
    },
  };
}

/** Spans of an export that was answered with 200 and that were not taken all the same. */
interface Refusal {
  readonly rejectedSpans: number;
  readonly reason: string;
}

/**
 * What the answer to an export refuses. The exporter counts such an answer as a success; all it does is to warn, in OpenTelemetry's own log, just
 * before it calls back.
 *
 * @returns what was refused since it was last asked
 */
function refusals(): () => Refusal | undefined {
  let refusal: Refusal | undefined;
  const ignore = () => undefined;
  const warn = (_: string, detail?: unknown) => {
    if (typeof detail === 'string') refusal = refusalIn(detail) ?? refusal;
  };
  const logger = { error: ignore, warn, info: ignore, debug: ignore, verbose: ignore };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
  return () => {
    const last = refusal;
    refusal = undefined;
    return last;
  };
}

/** Of `partialSuccess`, in whose JSON an int64 is text; undefined where nothing was refused. */
function refusalIn(json: string): Refusal | undefined {
  try {
    const { rejectedSpans, errorMessage } = JSON.parse(json) as Record<string, unknown>;
    const count = Number(rejectedSpans);
    if (!(count >= 1)) return undefined;
    const reason = typeof errorMessage === 'string' ? errorMessage : 'no reason is given';
    return { rejectedSpans: Math.trunc(count), reason };
  } catch {
    return undefined;
  }
}

/** Counts what becomes of spans; each export ends within its time. */
function counting(
  exporter: SpanExporter,
  { exported, dropped, failed, recovered, refused }: OtlpOptions,
): SpanExporter & { waiting(): number; add(): void; giveUp(): void } {
  const takeRefusal = refusals();
  const changes = sayingChanges((failure) => (failure === undefined ? recovered() : failed(failure)));
  let waiting = 0;
  let isGivenUp = false;
  let hasRefused = false;

  function count({ code, error }: Result, spans: number, refusal: Refusal | undefined): void {
    // These have been counted as dropped.
    if (isGivenUp) return;
    waiting -= spans;
    const outcome: number = code;
    if (outcome !== success) {
      dropped('collector', spans);
      changes.is(error ?? new Error('the collector did not take the spans'));
      return;
    }
    const rejected = Math.min(refusal?.rejectedSpans ?? 0, spans);
    exported(spans - rejected);
    changes.is(undefined);
    if (refusal === undefined) return;
    dropped('collector', rejected);
    if (!hasRefused) refused(new Error(`${rejected} of ${spans} spans were refused: ${refusal.reason}`));
    hasRefused = true;
  }

  return {
    waiting: () => waiting,
    add: () => void (waiting += 1),
    giveUp() {
      if (waiting > 0) dropped('collector', waiting);
      isGivenUp = true;
      changes.end();
    },
    export(spans, done) {
      let isEnded = false;
      const end = (result: Result, refusal?: Refusal) => {
        clearTimeout(timer);
        if (isEnded) return;
        isEnded = true;
        count(result, spans.length, refusal);
        done(result);
      };
      const late = new Error(`the collector did not answer within ${exportMs / 1000} s`);
      const timer = setTimeout(() => end({ code: success + 1, error: late }), exportMs);
      timer.unref();
      exporter.export(spans, (result) => end(result, takeRefusal()));
    },
    shutdown: () => exporter.shutdown(),
  };
}

const kinds = { internal: SpanKind.INTERNAL, server: SpanKind.SERVER, client: SpanKind.CLIENT } as const;

function readable(span: FinishedSpan, resource: Resource, version: string): ReadableSpan {
  const { traceId, spanId, parentSpanId, startMs, error, events = [], links = [] } = span;
  const endMs = Math.max(startMs, span.endMs);
  const inTrace = (id: string, trace = traceId) => ({
    traceId: trace,
    spanId: id,
    traceFlags: TraceFlags.SAMPLED,
  });
  const context = inTrace(spanId);
  return {
    name: span.name,
    kind: kinds[span.kind],
    spanContext: () => context,
    ...(parentSpanId === undefined ? {} : { parentSpanContext: inTrace(parentSpanId) }),
    startTime: timeOf(startMs),
    endTime: timeOf(endMs),
    duration: timeOf(endMs - startMs),
    status:
      error === undefined ? { code: SpanStatusCode.UNSET } : { code: SpanStatusCode.ERROR, message: error },
    attributes: { ...span.attributes },
    events: events.map(({ name, atMs, attributes = {} }) => ({
      name,
      time: timeOf(atMs),
      attributes: { ...attributes },
    })),
    links: links.map((link) => ({ context: inTrace(link.spanId, link.traceId) })),
    ended: true,
    resource,
    instrumentationScope: { name: 'svc3', version },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

/** Seconds and nanoseconds. */
function timeOf(ms: number): HrTime {
  const seconds = Math.trunc(ms / 1_000);
  return [seconds, Math.round((ms - seconds * 1_000) * 1_000_000)];
}
