import type { FastifyRequest } from 'fastify';
import type { Svc3Error } from '../../errors.ts';
import type { Caller } from './caller.ts';
import type { Route } from './route.ts';
import { failure } from './status.ts';

/** One way in: how callers are known and refusals are written. */
export interface ApiSurface {
  readonly name: string;
  caller(request: FastifyRequest): Caller | Promise<Caller>;
  /** The body of a refusal. */
  refusal(error: Svc3Error, request: FastifyRequest): unknown;
  /** Parameters that are not in the path but in headers, say. */
  parameters?(request: FastifyRequest): Readonly<Record<string, string>>;
  /** Whether an unknown path is answered in this API surface's words. */
  owns?(path: string): boolean;
  /** Headers of every reply of a route. */
  headers?(route: Route, params: Readonly<Record<string, string>>): Readonly<Record<string, string>>;
}

/** A refusal as Kubernetes' own API servers write it. */
export const statusRefusal = (error: Svc3Error): unknown => failure(error);
