import type { KubernetesBackend, KubernetesTarget, BackendOptions } from './service/open.ts';
import { needsApi } from './service/open.ts';
import { createKubernetesService } from './service/kubernetes/service.ts';
import { createClient } from '../kube/client.ts';
import { loadKubeconfig } from '../kube/connection.ts';
import { productVersion } from '../api/meta.ts';
import { isSvc3Error, messageOf } from '../errors.ts';
import type { RegistryCredentialRequest, Verdict } from './service/types.ts';
import { createUsers } from '../users/users.ts';

/** The command line's own door to kube-apiserver: the kubeconfig's user, nothing else. */
export async function openKubernetes(target: KubernetesTarget & BackendOptions): Promise<KubernetesBackend> {
  const { environment, warning } = target;
  const connection = await loadKubeconfig(target.kubeconfig, {
    environment: { ...environment.variables },
    ...(target.context === undefined ? {} : { context: target.context }),
  });
  const client = createClient(connection, { userAgent: `svc3/${productVersion}` });
  const http = target.http ?? (() => Promise.reject(needsApi()));
  const identityOf = async (server: string) =>
    (await import('./registryidentity.ts')).registryIdentity(server);
  return {
    ...(connection.namespace === undefined ? {} : { namespace: connection.namespace }),
    service: createKubernetesService({
      client,
      http,
      hasHttp: target.http !== undefined,
      identityOf,
      verify: verifyLogin,
      warning,
    }),
    users: createUsers({
      client,
      server: connection.server,
      context: connection.context ?? '',
      ownBearer: () => client.credential.bearer(),
      warning,
    }),
    close: () => client.close(),
  };
}

const verifyTimeoutMs = 10_000;

/** Logs in to the registry once from here; a registry that only the cluster can reach is not refused for that. */
async function verifyLogin({
  server,
  username,
  password,
  allowInsecure,
}: RegistryCredentialRequest): Promise<Verdict> {
  const { createRegistryClient } = await import('../registry/client.ts');
  const { protocol, host } = new URL(server);
  const registry = createRegistryClient({
    registry: host,
    scheme: protocol === 'http:' ? 'http' : 'https',
    skipVerify: allowInsecure === true,
    credentials: { username, password },
  });
  try {
    await registry.login({ signal: AbortSignal.timeout(verifyTimeoutMs) });
    return { kind: 'accepted', message: 'accepted' };
  } catch (error) {
    const refused = isSvc3Error(error, 'Unauthorized', 'Forbidden');
    const words = refused ? 'the registry refused the credential' : 'the registry could not be asked';
    return { kind: refused ? 'refused' : 'unreachable', message: `${words}: ${messageOf(error)}` };
  } finally {
    await registry.close();
  }
}
