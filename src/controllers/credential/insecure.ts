import type { RegistryCredential } from '../../api/registrycredential.ts';
import { parseServer, type RegistryIdentity } from '../../registry/identity.ts';

/** Which registries nodes may trust without a certificate (chart value `insecureRegistries`). */
export interface InsecurePolicy {
  readonly enabled: boolean;
  /** `host` or `host:port`, `*` for any characters but a colon; without a port every port. */
  readonly allowed: readonly string[];
}

/** Key of the ConfigMap `svc3-insecure-registries`: one server per line. */
export const serversKey = 'servers';

function patternOf(allowed: string): RegExp {
  const literal = allowed
    .toLowerCase()
    .split('*')
    .map((part) => part.replaceAll(/[.+?^${}()|[\]\\]/g, String.raw`\$&`));
  return new RegExp(`^${literal.join('[^:]*')}$`);
}

/** Whether nodes may reach this registry on plain HTTP or without verifying its certificate. */
export function isAllowedInsecure(registry: RegistryIdentity, policy: InsecurePolicy): boolean {
  const spellings = registry.hosts.flatMap((host) => [host, `${host}:${registry.port}`]);
  return (
    policy.enabled &&
    policy.allowed.some(
      // By itself it is for every host, also for an address with colons in it.
      (allowed) => allowed === '*' || spellings.some((spelling) => patternOf(allowed).test(spelling)),
    )
  );
}

/**
 * The servers that nodes are to trust: those of credentials with `allowInsecure` that the policy allows. Sorted, each
 * once, so that the same credentials give the same text.
 */
export function insecureServers(
  credentials: readonly RegistryCredential[],
  policy: InsecurePolicy,
): string[] {
  const servers = credentials
    .filter(({ metadata, spec }) => spec.allowInsecure && metadata.deletionTimestamp === undefined)
    .map(({ spec }) => parseServer(spec.server))
    .filter((registry) => isAllowedInsecure(registry, policy))
    .map(({ server }) => server);
  return [...new Set(servers)].sort();
}
