import { z } from 'zod';

/** Settings of a process that records traces, under the names that OpenTelemetry gives them. */
export const traceEnvironment = {
  /** Collector of OTLP over HTTP; unset: no traces. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z
    .string()
    .refine(isHttpUrl, 'must be the URL of a collector of OTLP over HTTP, as http://otel-collector:4318')
    .refine(hasNoCredentials, 'must have no credentials in it: they belong in OTEL_EXPORTER_OTLP_HEADERS')
    .optional(),
  /** A file with the certificates that a collector's is to be signed by. */
  OTEL_EXPORTER_OTLP_CERTIFICATE: z.string().optional(),
  /** Share of the traces that begin here and are recorded; one that began elsewhere says so itself. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
};
const schema = z.object(traceEnvironment);
export type TraceEnvironment = z.infer<typeof schema>;

function isHttpUrl(text: string): boolean {
  return /^https?:$/.test(URL.parse(text)?.protocol ?? '');
}

/** Whether the URL names neither a user nor a password; a text that is none has no credentials. */
export function hasNoCredentials(text: string): boolean {
  const { username = '', password = '' } = URL.parse(text) ?? {};
  return username === '' && password === '';
}
