import type { KubernetesBackend, KubernetesTarget, BackendOptions } from './service/open.ts';
import { needsApi } from './service/open.ts';
import { createKubernetesService } from './service/kubernetes/service.ts';
import { createClient } from '../kube/client.ts';
import { loadKubeconfig } from '../kube/connection.ts';
import { productVersion } from '../api/meta.ts';
import { Svc3Error } from '../errors.ts';
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
  const identityOf = (server: string) =>
    Promise.reject<{ name: string }>(
      new Svc3Error('NotImplemented', `${server}: registry credentials are not there yet`),
    );
  return {
    ...(connection.namespace === undefined ? {} : { namespace: connection.namespace }),
    service: createKubernetesService({
      client,
      http,
      hasHttp: target.http !== undefined,
      identityOf,
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
