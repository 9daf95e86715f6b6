import type { UserInfo } from '../../api/core.ts';
import { statusRefusal } from '../call/apisurface.ts';
import type { ApiSurfaceOptions } from '../process.ts';
import type { Caller } from '../call/caller.ts';
import { remoteUser, type RequestHeaders } from './requestheader.ts';
import { aggregatedRoutes } from './routes.ts';

/** The aggregated API `api.svc3.dev/v1`: identity comes from kube-apiserver, see `requestheader.ts`. */
export function createAggregatedSurface(
  headers: () => RequestHeaders | undefined,
  callerOf: (user: UserInfo) => Caller,
): ApiSurfaceOptions {
  return {
    surface: {
      name: 'aggregated',
      caller: (request) => callerOf(remoteUser(request.raw, headers())),
      refusal: statusRefusal,
      owns: (path) => path.startsWith('/apis') || path.startsWith('/openapi'),
    },
    routes: aggregatedRoutes,
  };
}
