import type { FastifyRequest } from 'fastify';
import type { UserInfo } from '../../api/core.ts';
import type { KubeClient } from '../../kube/types.ts';

/** What one request asks the authorizer of Kubernetes. */
export interface AccessAttributes {
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly verb: 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete';
  readonly namespace?: string;
  readonly name?: string;
}

/** Who calls: what they may do and a client that has exactly their rights. */
export interface Caller {
  /** Stands for the identity in limits and in no log. */
  readonly key: string;
  readonly client: KubeClient;
  /** Throws Unauthorized or Forbidden. `isFresh`: not by what was decided a moment ago. */
  authorize(attributes: AccessAttributes, isFresh?: boolean): Promise<void>;
  /** The identity. */
  user(): Promise<UserInfo>;
  /** When the token ends, in milliseconds since 1970, where it says so. */
  readonly expiresAt?: number;
}

/**
 * Who calls from the page: known by the cookie of its session only, and only from the page itself.
 * @throws Svc3Error Unauthorized, Forbidden
 */
export type FindPageCaller = (
  request: Pick<FastifyRequest, 'method' | 'headers' | 'ip'>,
) => Caller | Promise<Caller>;
