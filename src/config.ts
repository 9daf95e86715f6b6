import { z } from 'zod';
import { Svc3Error } from './errors.ts';
import { inClusterConnection, loadKubeconfig } from './kube/connection.ts';
import type { ConnectionConfig } from './kube/connection.ts';

export type Environment = NodeJS.ProcessEnv;

/** A switch in the environment: `true` or `false`. */
export const flag = (fallback: boolean) =>
  z
    .enum(['true', 'false'])
    .default(fallback ? 'true' : 'false')
    .transform((text) => text === 'true');

export const port = (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback);

/** Settings that every process in the cluster has. Each adds its own with `CommonSettings.extend({…})`. */
export const CommonSettings = z.object({
  SVC3_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  /** `/livez`, `/readyz`, `/metrics`. 0: any free port. */
  SVC3_HEALTH_PORT: port(8081),
  SVC3_HEALTH_HOST: z.string().optional(),
  /** How long the process may take to end, in milliseconds; less than the pod's terminationGracePeriodSeconds. */
  SVC3_SHUTDOWN_GRACE_MS: z.coerce.number().int().min(0).default(20_000),
  /** Downward API. */
  POD_NAME: z.string().min(1).default('local'),
  POD_NAMESPACE: z.string().min(1).default('svc3-system'),
  NODE_NAME: z.string().optional(),
  /** A kubeconfig instead of the pod's ServiceAccount. */
  KUBECONFIG: z.string().optional(),
  KUBERNETES_SERVICE_HOST: z.string().optional(),
  KUBERNETES_SERVICE_PORT: z.string().optional(),
});
export type CommonSettings = z.infer<typeof CommonSettings>;

/** The variables that are set: one set to nothing, as the chart renders an unset value, is not. */
export function withoutEmpty<T extends string | undefined>(variables: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== ''));
}

/**
 * Settings of a process from its environment. Errors: BadRequest with one field per wrong variable; their values,
 * which may be secret, are not quoted.
 */
export function readSettings<T extends z.ZodType>(
  schema: T,
  environment: Environment = process.env,
): z.infer<T> {
  const result = schema.safeParse(withoutEmpty(environment));
  if (result.success) return result.data;
  const causes = result.error.issues.map(({ path, message }) => ({ field: path.join('.'), message }));
  throw new Svc3Error('BadRequest', causes.map(({ field, message }) => `${field}: ${message}`).join('; '), {
    details: { causes },
  });
}

/** The connection to kube-apiserver that the environment means: KUBECONFIG, else the pod's ServiceAccount. */
export async function kubeConnection(
  settings: CommonSettings,
  environment: Environment = process.env,
): Promise<ConnectionConfig> {
  if (settings.KUBECONFIG !== undefined) return loadKubeconfig(settings.KUBECONFIG, { environment });
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: servicePort } = settings;
  if (host === undefined)
    throw new Svc3Error(
      'BadRequest',
      'neither KUBECONFIG nor KUBERNETES_SERVICE_HOST is set: there is no cluster to talk to',
    );
  return inClusterConnection({ host, ...(servicePort === undefined ? {} : { port: servicePort }) });
}
