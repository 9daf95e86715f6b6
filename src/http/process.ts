import type { AddressInfo } from 'node:net';
import type { Registry } from 'prom-client';
import { images, isos, nodes, pods, serviceAccounts, vmConfigs, vmPools, vms } from '../api/resources.ts';
import type { Informers as SharedInformers } from '../controller/informers.ts';
import type { Pod } from '../api/core.ts';
import type { LogAnswer } from './server/accesslog.ts';
import { keepIdentity } from './call/accounts.ts';
import { createAuthenticator, type Authenticator } from './auth/auth.ts';
import { createCaches, vmIndexes, type Caches } from './call/caches.ts';
import { createSurfaceV1 } from './server/surfacev1.ts';
import { ConcurrencyLimit } from './auth/limits.ts';
import { createCertificateMetrics, createHttpMetrics } from './server/metrics.ts';
import { keepRequests, type PodRequests } from '../wire/nodeusage.ts';
import type { KubeClient } from '../kube/types.ts';
import type { ApiSurface } from './call/apisurface.ts';
import type { Route } from './call/route.ts';
import { createPages } from './routes/pages.ts';
import { routes } from './routes/table.ts';
import { checkReply } from './server/replycheck.ts';
import { createServer, type HttpServer, type ServerLimits } from './server/server.ts';
import type { Services } from './call/services.ts';
import { isStreamRequest } from './streams/streamrequest.ts';
import { createStreams } from './streams/streams.ts';
import { createCodeRoute, createPageSessionRoutes, pageRoutes } from './ui/routes.ts';
import { createSessions } from './ui/sessions.ts';
import { createFindPageCaller, createUiSurface } from './ui/surface.ts';
import type { ServingTls } from './server/tls.ts';

/** Asks the process's informers for everything the routes read; before they run. */
export function cachesOf(client: KubeClient, informers: SharedInformers): Caches {
  return createCaches(client, {
    vms: informers.get(vms, { indexes: vmIndexes }),
    vmConfigs: informers.get(vmConfigs),
    vmPools: informers.get(vmPools),
    images: informers.get(images),
    isos: informers.get(isos),
    nodes: informers.get(nodes),
    pods: informers.get<PodRequests>(pods, { transform: (pod) => keepRequests(pod as Pod) }),
    accounts: informers.get(serviceAccounts, { transform: keepIdentity }),
  });
}

/** Further ways in, made from what the process shares. */
export interface ApiSurfaceOptions {
  readonly surface: ApiSurface;
  readonly routes: readonly Route[];
}

export interface ApiOptions extends ServerLimits {
  readonly services: Services;
  readonly registry: Registry;
  readonly tls: ServingTls;
  /** Writes the line of every answered request. Default: the log of the services. */
  readonly answered?: LogAnswer;
  /** Holds every reply against the schema of its route; default false. */
  readonly checkReplies?: boolean;
  readonly surfaces?: (authenticator: Authenticator) => readonly ApiSurfaceOptions[];
  /** How often clients of streams are asked whether they are still there. */
  readonly pingEveryMs?: number;
  /** How often the right to an open stream is asked for again; default 10 s. */
  readonly confirmEveryMs?: number;
}

export interface Api {
  readonly http: HttpServer;
  listen(address: { host: string; port: number }): Promise<AddressInfo>;
  close(graceMs: number, leaveMs?: number): Promise<void>;
}

/** The HTTP API of one process: `/api/v1`, its pages and streams, and the other API surfaces that are given. */
export function createApi(options: ApiOptions): Api {
  const { services } = options;
  const authenticator = createAuthenticator(services.client, services.caches.accounts);
  createCertificateMetrics(options.registry, options.tls);
  const sessions = createSessions(services.seals);
  const findPageCaller = createFindPageCaller(authenticator, sessions, services.settings);
  const pages = createPages(routes, new URL('../', import.meta.resolve('@novnc/novnc')));
  const http = createServer({
    ...options,
    metrics: createHttpMetrics(options.registry),
    ...(options.checkReplies === true ? { checkReply } : {}),
    surfaces: [
      { surface: createSurfaceV1(authenticator), routes: [...routes, ...pages, createCodeRoute(sessions)] },
      {
        surface: createUiSurface(findPageCaller),
        routes: [...createPageSessionRoutes(authenticator, sessions), ...pageRoutes],
      },
      ...(options.surfaces?.(authenticator) ?? []),
    ],
  });
  // Node asks this of every listener that speaks HTTP/1.1; its types know it only of those that speak nothing else.
  Object.assign(http.server, { shouldUpgradeCallback: isStreamRequest });
  http.server.on(
    'upgrade',
    createStreams({
      services,
      authenticator,
      findPageCaller,
      limit: new ConcurrencyLimit(options.longRunningPerIdentity ?? 500, 'streams of this identity'),
      use: http.use,
      drain: http.drain,
      ending: http.ending,
      ...(options.pingEveryMs === undefined ? {} : { pingEveryMs: options.pingEveryMs }),
      ...(options.confirmEveryMs === undefined ? {} : { confirmEveryMs: options.confirmEveryMs }),
    }),
  );
  return { http, listen: http.listen, close: http.close };
}
