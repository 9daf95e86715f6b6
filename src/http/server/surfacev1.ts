import type { Authenticator } from '../auth/auth.ts';
import { statusRefusal, type Face } from './pipeline.ts';

/** `/api/v1` with bearer tokens; refusals are a Kubernetes Status. */
export function createFaceV1(authenticator: Authenticator): Face {
  return {
    name: 'v1',
    caller: (request) => authenticator.caller(request.headers.authorization, request.ip),
    refusal: statusRefusal,
  };
}
