import type { Authenticator } from '../auth/auth.ts';
import { statusRefusal, type ApiSurface } from '../call/apisurface.ts';

/** `/api/v1` with bearer tokens; refusals are a Kubernetes Status. */
export function createSurfaceV1(authenticator: Authenticator): ApiSurface {
  return {
    name: 'v1',
    caller: (request) => authenticator.caller(request.headers.authorization, request.ip),
    refusal: statusRefusal,
  };
}
