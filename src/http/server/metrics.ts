import { X509Certificate } from 'node:crypto';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ServingTls } from './tls.ts';

/** `svc3_certificate_expiry_timestamp_seconds` by use: `serving`, and `internal` for the aggregated API. In Unix time. */
export function createCertificateMetrics(
  registry: Registry,
  { certificates }: Pick<ServingTls, 'certificates'>,
): void {
  const gauge = new Gauge({
    name: 'svc3_certificate_expiry_timestamp_seconds',
    help: 'When the certificate ends that the api shows, in Unix time.',
    labelNames: ['use'] as const,
    registers: [],
    collect() {
      this.reset();
      for (const [use, pem] of certificates())
        this.set({ use }, new X509Certificate(pem).validToDate.getTime() / 1000);
    },
  });
  registry.registerMetric(gauge);
}

/** What the HTTP servers count, per route and never per path, so that the number of series is bounded. */
export interface HttpMetrics {
  started(): void;
  /** `bytes`: of bodies that are held now. */
  countBodies(bytes: () => number): void;
  ended(row: { surface: string; route: string; method: string; status: number; seconds: number }): void;
}

export function createHttpMetrics(registry: Registry): HttpMetrics {
  const labelNames = ['surface', 'route', 'method', 'code'] as const;
  const requests = new Counter({
    name: 'svc3_http_requests_total',
    help: 'Requests answered.',
    labelNames,
    registers: [registry],
  });
  const duration = new Histogram({
    name: 'svc3_http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its reply.',
    labelNames: ['surface', 'route', 'method'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600],
    registers: [registry],
  });
  const inFlight = new Gauge({
    name: 'svc3_http_requests_in_flight',
    help: 'Requests being answered now.',
    registers: [registry],
  });
  return {
    countBodies(bytes) {
      const held: Gauge = new Gauge({
        name: 'svc3_http_request_body_bytes',
        help: 'Bytes of JSON request bodies that are held in memory.',
        registers: [registry],
        collect: () => held.set(bytes()),
      });
    },
    started: () => inFlight.inc(),
    ended({ surface, route, method, status, seconds }) {
      inFlight.dec();
      requests.inc({ surface, route, method, code: String(status) });
      duration.observe({ surface, route, method }, seconds);
    },
  };
}
