import { z } from 'zod';
import { defaultAllowedHostPorts, namespaces, productVersion, type PortRange } from '../../api/meta.ts';
import { scratchSize } from '../../controllers/image/settings.ts';
import { CommonSettings, flag, port } from '../../config.ts';
import { Svc3Error } from '../../errors.ts';
import { readPem, type ConnectionConfig } from '../../kube/connection.ts';
import { hasNoCredentials, traceEnvironment } from '../../tracing/settings.ts';
import type { HttpSettings } from '../call/services.ts';

const list = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((word) => word.trim())
      .filter((word) => word !== ''),
  );

const portRange = z
  .string()
  .regex(/^\d{1,5}-\d{1,5}$/, 'must be FIRST-LAST')
  .default(`${defaultAllowedHostPorts.first}-${defaultAllowedHostPorts.last}`)
  .transform((text): PortRange => {
    const [first = 0, last = 0] = text.split('-').map(Number);
    return { first, last };
  });

const noCredentials = 'must have no credentials in it: everybody is told it';

/** Settings of the api's process. */
export const ApiSettings = CommonSettings.extend({
  ...traceEnvironment,
  SVC3_HTTP_HOST: z.string().optional(),
  SVC3_HTTP_PORT: port(8443),
  SVC3_DEFAULT_NAMESPACE: z.string().default(namespaces.default),
  SVC3_GPU_PASSTHROUGH_ENABLED: flag(false),
  SVC3_HOST_PORTS_ALLOWED: portRange,
  /** Where clients reach the API; its host is also a name of the self-signed certificate. */
  SVC3_API_BASE_URL: z.url().refine(hasNoCredentials, noCredentials).optional(),
  /** Where clients reach kube-apiserver; default: the address this process uses. */
  SVC3_CLUSTER_ENDPOINT: z.url().refine(hasNoCredentials, noCredentials).optional(),
  /** Issuer and public client that `svc3 login --oidc` takes; both or neither. */
  SVC3_OIDC_ISSUER_URL: z
    .url({ protocol: /^https$/ })
    .refine(hasNoCredentials, noCredentials)
    .optional(),
  SVC3_OIDC_CLIENT_ID: z.string().min(1).max(256).optional(),
  SVC3_AGGREGATED_API_ENABLED: flag(true),
  SVC3_REMOTE_REGISTRIES: list,
  SVC3_STORE_URL: z.string().default(''),
  SVC3_STORE_PREFIX: z.string().default('svc3'),
  /** Hours after which an upload that nobody goes on with is given up. */
  SVC3_UPLOAD_EXPIRY_HOURS: z.coerce.number().positive().default(24),
  SVC3_WORKER_SCRATCH_SIZE: scratchSize,
  SVC3_CONCURRENT_REQUESTS: z.coerce.number().int().min(1).default(1000),
  SVC3_WAITING_REQUESTS: z.coerce.number().int().min(1).default(500),
  /** Holds every reply against the schema of its route: for tests and development. */
  SVC3_CHECK_REPLIES: flag(false),
  /** How long a pod that is ending still serves before it stops taking connections: Endpoints need that to know. */
  SVC3_DRAIN_DELAY_MS: z.coerce.number().int().min(0).default(3_000),
});
export type ApiSettings = z.infer<typeof ApiSettings>;

/** @param connection - to kube-apiserver; its CA is told to clients as it is when they ask */
export function httpSettingsOf(
  settings: ApiSettings,
  { server, ca }: Pick<ConnectionConfig, 'server' | 'ca'>,
): HttpSettings {
  return {
    version: productVersion,
    gpuPassthroughEnabled: settings.SVC3_GPU_PASSTHROUGH_ENABLED,
    clusterEndpoint: settings.SVC3_CLUSTER_ENDPOINT ?? server,
    clusterCaPem: async () => (ca === undefined ? '' : readPem(ca)),
    apiDomain: settings.SVC3_API_BASE_URL === undefined ? '' : new URL(settings.SVC3_API_BASE_URL).host,
    hostPortsAllowed: settings.SVC3_HOST_PORTS_ALLOWED,
    defaultNamespace: settings.SVC3_DEFAULT_NAMESPACE,
    ...oidcOf(settings),
  };
}

/** @throws Svc3Error BadRequest where one of the two is missing */
function oidcOf({ SVC3_OIDC_ISSUER_URL: issuerUrl, SVC3_OIDC_CLIENT_ID: clientId }: ApiSettings) {
  if (issuerUrl === undefined && clientId === undefined) return {};
  if (issuerUrl === undefined || clientId === undefined)
    throw new Svc3Error(
      'BadRequest',
      'SVC3_OIDC_ISSUER_URL and SVC3_OIDC_CLIENT_ID are set together or not at all',
    );
  return { oidc: { issuerUrl, clientId } };
}

const service = 'svc3-api.svc3-system';

/** Names inside the cluster; kube-apiserver dials the first one. */
export const internalNames: readonly string[] = [
  `${service}.svc`,
  service,
  'svc3-api',
  `${service}.svc.cluster.local`,
];

/** Host of the address that clients outside of the cluster are told, where there is one. */
export function outsideNames({ SVC3_API_BASE_URL: baseUrl }: ApiSettings): string[] {
  return baseUrl === undefined ? [] : [new URL(baseUrl).hostname.replaceAll(/[[\]]/g, '')];
}

/** Names of the certificate that the api makes for itself. */
export function certificateNames(settings: ApiSettings): string[] {
  return [...new Set([...internalNames, 'localhost', '127.0.0.1', ...outsideNames(settings)])];
}
