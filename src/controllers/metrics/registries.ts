import { Counter, type Registry } from 'prom-client';
import type { RegistryFailed } from '../../registry/transport.ts';

/** Hosts beyond these are counted together: tenants choose them. */
const mostHosts = 50;

const others = 'other';

/**
 * `svc3_registry_errors_total` by host and reason: `Unreachable`, or what the registry answered (Unauthorized, NotFound …).
 * `known` hosts, the store's for one, have a series whatever tenants name.
 */
export function createRegistryMetrics(registry: Registry, known: readonly string[]): RegistryFailed {
  const counter = new Counter({
    name: 'svc3_registry_errors_total',
    help: 'Requests to registries that failed, after their retries.',
    labelNames: ['registry', 'reason'] as const,
    registers: [registry],
  });
  const hosts = new Set(known);
  const most = mostHosts + hosts.size;
  return (host, reason) => {
    if (hosts.size < most) hosts.add(host);
    counter.inc({ registry: hosts.has(host) ? host : others, reason });
  };
}
