import type { KubernetesBackend, KubernetesTarget, BackendOptions, ServerTarget } from './service/open.ts';
import { needsApi } from './service/open.ts';
import type { Service } from './service/types.ts';
import { createKubernetesService } from './service/kubernetes/service.ts';
import { createClient, type RootClient } from '../kube/client.ts';
import { createInformer } from '../kube/informer.ts';
import { type ConnectionConfig, loadKubeconfig, readPem } from '../kube/connection.ts';
import { fieldManagers, productVersion } from '../api/meta.ts';
import { interruptible } from './service/interruptible.ts';
import { trustMachine } from './authorities.ts';
import { callerOf } from './users/caller.ts';
import { createUsers } from './users/users.ts';
import { insidePlugin } from './tokencache.ts';

const callerOptions = {
  userAgent: `svc3/${productVersion}`,
  fieldManager: fieldManagers.cli,
  // A user's machine has the memory that a pod of the api has not, and each page costs the way to the cluster and back.
  pageSize: 500,
};

function clientOf(connection: ConnectionConfig, signal: AbortSignal) {
  const { server, ca, insecureSkipTlsVerify } = connection;
  // Nearly every kubeconfig names its authority.
  if (ca === undefined && insecureSkipTlsVerify !== true && server.startsWith('https:')) trustMachine();
  return interruptibleClient(createClient(connection, callerOptions), signal);
}

/** The same client, whose reads end with the signal, see `interruptible`. */
function interruptibleClient(client: RootClient, signal: AbortSignal): RootClient {
  const asked = interruptible(signal);
  return {
    ...client,
    get: (...given) => asked.by('GET', () => client.get(...given)),
    list: (...given) => asked.by('GET', () => client.list(...given)),
    create: (...given) => asked.by('POST', () => client.create(...given)),
    apply: (...given) => asked.by('PATCH', () => client.apply(...given)),
    patch: (...given) => asked.by('PATCH', () => client.patch(...given)),
    replace: (...given) => asked.by('PUT', () => client.replace(...given)),
    delete: (...given) => asked.by('DELETE', () => client.delete(...given)),
    request: (request) => asked.by(request.method, () => client.request(request)),
  };
}

/** kube-apiserver as the kubeconfig's user, and the users of svc3. */
export async function openClient({
  environment,
  warning,
  kubeconfig,
  context,
}: KubernetesTarget & BackendOptions) {
  const connection = await loadKubeconfig(kubeconfig, {
    environment: { ...environment.variables, [insidePlugin]: '1' },
    ...(context === undefined ? {} : { context }),
  });
  const client = clientOf(connection, environment.signal);
  const users = createUsers({
    client,
    server: connection.server,
    context: connection.context ?? '',
    caller: await callerOf(connection, readPem),
    ownBearer: () => client.credential.bearer(),
    warning,
  });
  return { client, users, connection, close: () => client.close() };
}

/** The command line's own connection to kube-apiserver: the kubeconfig's user, nothing else. */
export async function openKubernetes(target: KubernetesTarget & BackendOptions): Promise<KubernetesBackend> {
  const { client, users, connection, close } = await openClient(target);
  const http = target.http ?? (() => Promise.reject(needsApi()));
  const hasHttp = target.http !== undefined;
  return {
    ...(connection.namespace === undefined ? {} : { namespace: connection.namespace }),
    ...(connection.context === undefined ? {} : { context: connection.context }),
    service: createKubernetesService({
      client,
      informers: createInformer,
      http,
      hasHttp,
      warning: target.warning,
    }),
    users,
    close,
  };
}

/** A kube-apiserver with a token and nothing else. */
export function openServer(target: ServerTarget & BackendOptions): Promise<Service> {
  const { server, caPem, token, warning } = target;
  const client = clientOf(
    { server, auth: { kind: 'asked', token }, ...(caPem === '' ? {} : { ca: { pem: caPem } }) },
    target.environment.signal,
  );
  const http = () => Promise.reject(needsApi());
  return Promise.resolve(
    createKubernetesService({ client, informers: createInformer, http, hasHttp: false, warning }),
  );
}
