import { Counter, type Registry } from 'prom-client';
import type { RegistryFailed } from '../../registry/transport.ts';

/** Hosts beyond these are counted together: tenants choose them. */
const mostHosts = 50;

const others = 'other';

/** What queries ask for of known hosts: they see only what a series grows by, and one that began with the first failure would not have it. */
const expected = ['Unreachable', 'Unauthorized', 'Forbidden', 'TooManyRequests', 'BadGateway'] as const;

/**
 * `svc3_registry_errors_total` by host and reason: `Unreachable`, or what the registry answered (Unauthorized, NotFound …).
 * `known` hosts, the store's for one, have a series whatever tenants name, and from the beginning; an empty name is none.
 */
export function createRegistryMetrics(registry: Registry, known: readonly string[]): RegistryFailed {
  const counter = new Counter({
    name: 'svc3_registry_errors_total',
    help: 'Requests to registries that failed, after their retries.',
    labelNames: ['registry', 'reason'] as const,
    registers: [registry],
  });
  const hosts = new Set(known.filter((host) => host !== ''));
  for (const host of hosts) for (const reason of expected) counter.inc({ registry: host, reason }, 0);
  const most = mostHosts + hosts.size;
  return (host, reason) => {
    if (hosts.size < most) hosts.add(host);
    counter.inc({ registry: hosts.has(host) ? host : others, reason });
  };
}
