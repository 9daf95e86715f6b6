import { accessSync, constants } from 'node:fs';
import { Counter, type Registry } from 'prom-client';
import { productVersion } from '../api/meta.ts';
import { messageOf, Svc3Error } from '../errors.ts';
import type { TraceEnvironment } from './settings.ts';
import type { TracedService, Tracer } from './span.ts';

export interface TracerParts {
  readonly service: TracedService;
  /** Name of the process's pod. */
  readonly instance: string;
  readonly registry: Registry;
  readonly log: {
    info(fields: object, message: string): void;
    warn(fields: object, message: string): void;
  };
}

/**
 * The tracer that the settings ask for; undefined where they name no collector: then nothing of OpenTelemetry is loaded.
 *
 * @throws Svc3Error BadRequest where the collector's certificates cannot be read
 */
export async function openTracer(
  settings: TraceEnvironment,
  { service, instance, registry, log }: TracerParts,
): Promise<Tracer | undefined> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_CERTIFICATE: certificates } = settings;
  if (endpoint === undefined) return undefined;
  if (certificates !== undefined) checkReadable(certificates);
  const { exported, dropped } = createTraceMetrics(registry);
  const { createOtlpTracer } = await import('./otlp.ts');
  log.info({}, 'traces go to the collector');
  return createOtlpTracer({
    url: tracesUrl(endpoint),
    sampleRatio: settings.OTEL_TRACES_SAMPLER_ARG,
    version: productVersion,
    service,
    instance,
    exported: (spans) => exported.inc(spans),
    dropped: (reason, spans) => dropped.inc({ reason }, spans),
    failed: (err) => log.warn({ err }, 'the collector takes no traces; spans are dropped until it does'),
    recovered: () => log.info({}, 'the collector takes traces again'),
    refused: (err) =>
      log.warn(
        { err },
        'the collector refuses some spans, which are lost; this is said once, a metric counts them',
      ),
  });
}

/** As OpenTelemetry has it: the path of the signal below that of the endpoint. */
function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}

function checkReadable(path: string): void {
  try {
    accessSync(path, constants.R_OK);
  } catch (cause) {
    const message = `OTEL_EXPORTER_OTLP_CERTIFICATE: cannot be read: ${messageOf(cause)}`;
    throw new Svc3Error('BadRequest', message, { cause });
  }
}

/** `svc3_trace_spans_exported_total` and `svc3_trace_spans_dropped_total`. */
function createTraceMetrics(registry: Registry) {
  return {
    exported: new Counter({
      name: 'svc3_trace_spans_exported_total',
      help: 'Spans that the collector has taken.',
      registers: [registry],
    }),
    dropped: new Counter({
      name: 'svc3_trace_spans_dropped_total',
      help: 'Spans that were dropped, by reason: queue (too many waited), collector (it did not take them).',
      labelNames: ['reason'] as const,
      registers: [registry],
    }),
  };
}
