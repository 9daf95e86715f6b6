import type { Rights, UserItem, UserToken } from './users/users.ts';

export type { Rights, UserItem, UserToken };

/** People and their tokens (spec: "Authentication"); managed by CLI only, never by an HTTP route. */
export interface Users {
  list(): Promise<UserItem[]>;
  add(name: string, rights: Rights): Promise<UserItem>;
  remove(name: string): Promise<void>;
  /** One hour; of the kubeconfig's own user unless another is named. */
  token(options: { readonly name?: string }): Promise<UserToken>;
  /** The kubeconfig's own bearer credential with its own expiry. */
  ownToken(): Promise<{ readonly token: string; readonly expirationTimestamp?: string }>;
  /**
   * What a cached token belongs to: the cluster, the context, whose kubeconfig it is, and the person. No secret is in it. The cluster is
   * asked for the person where the kubeconfig does not say.
   */
  cacheKey(name?: string): Promise<string>;
  /** Whether kube-apiserver takes a token; asked once for each. Where nobody answers soon, it may well. */
  isTaken(token: string): Promise<boolean>;
}
