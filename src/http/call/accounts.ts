import type { ServiceAccount, UserInfo } from '../../api/core.ts';
import { serviceAccounts } from '../../api/resources.ts';
import { Svc3Error, isSvc3Error } from '../../errors.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import { ExpiringMap } from './expiringmap.ts';

/**
 * How long a deleted account is remembered: longer than anybody remembers that its tokens were good. kube-apiserver does for
 * 10 s after it has verified one, the authenticator here for 240 s.
 */
const rememberedMs = 300_000;
const maxRemembered = 50_000;

/** Who an account is: by UID where it is known, else by name (kube-apiserver need not pass on the UID of a caller). */
export type AccountIdentity = Pick<UserInfo, 'uid' | 'username'>;

/**
 * The ServiceAccounts of the cluster, as far as their tokens are concerned. Deleting one revokes its tokens at once: what was
 * decided for them before no longer counts.
 */
export interface Accounts {
  /** Whether the caller is a ServiceAccount that was deleted. */
  isDeleted(identity: AccountIdentity): boolean;
  /** Whether there is a ServiceAccount of this UID. */
  has(uid: string): boolean;
  /**
   * For who is known by a remembered name only: asks kube-apiserver about a ServiceAccount that the cache does not show.
   * @throws Svc3Error Unauthorized when it is gone; others pass
   */
  confirm(identity: AccountIdentity): Promise<void>;
  /** Calls back once when the caller's account is deleted; the returned function ends that. */
  onDeleted(identity: AccountIdentity, listener: () => void): () => void;
}

/** The transform of the informer: all that is needed of an account. */
export function keepIdentity({ metadata }: ServiceAccount): ServiceAccount {
  const { name, namespace, uid, resourceVersion } = metadata;
  return { metadata: { name, namespace, uid, resourceVersion } };
}

const prefix = 'system:serviceaccount:';

function usernameOf({ metadata }: ServiceAccount): string {
  return `${prefix}${metadata.namespace}:${metadata.name}`;
}

/** Namespace and name of a ServiceAccount's user name. */
function keyOf(username = ''): { namespace: string; name: string } | undefined {
  if (!username.startsWith(prefix)) return undefined;
  const [namespace = '', name = ''] = username.slice(prefix.length).split(':', 2);
  return { namespace, name };
}

export function deletedAccount(): Svc3Error {
  return new Svc3Error('Unauthorized', 'Unauthorized: the account was deleted');
}

const byUid = 'uid';
const uidOf = ({ metadata }: ServiceAccount): readonly string[] => [metadata.uid];

/** Call before the informer runs; it has `keepIdentity` as its transform. */
export function createAccounts(client: KubeClient, informer: Informer<ServiceAccount>): Accounts {
  const deleted = new ExpiringMap<true>(maxRemembered);
  const listeners = new Map<string, Set<() => void>>();
  informer.addIndexes({ [byUid]: uidOf });
  const has = (uid: string): boolean => informer.byIndex(byUid, uid).length > 0;

  function forget(key: string): void {
    deleted.set(key, true, rememberedMs);
    const told = listeners.get(key);
    listeners.delete(key);
    for (const listener of told ?? []) listener();
  }

  informer.onChange(({ kind, object }) => {
    const username = usernameOf(object);
    if (kind === 'added') deleted.delete(username);
    if (kind !== 'deleted') return;
    forget(object.metadata.uid);
    forget(username);
  });

  const identityKey = ({ uid, username = '' }: AccountIdentity): string => uid ?? username;

  return {
    isDeleted: (identity) => deleted.get(identityKey(identity)) === true,
    has,
    async confirm({ uid, username }) {
      const key = keyOf(username);
      if (key === undefined) return;
      if (deleted.get(uid ?? username ?? '') === true) throw deletedAccount();
      if (uid !== undefined && has(uid)) return;
      // The watch may be behind: an account that has just been made.
      const found = await client.get(serviceAccounts, key.name, key.namespace).catch((error: unknown) => {
        if (isSvc3Error(error, 'NotFound')) return undefined;
        throw error;
      });
      if (found === undefined || (uid !== undefined && found.metadata.uid !== uid)) throw deletedAccount();
    },
    onDeleted(identity, listener) {
      const key = identityKey(identity);
      const known = listeners.get(key) ?? new Set();
      listeners.set(key, known.add(listener));
      return () => {
        known.delete(listener);
        if (known.size === 0 && listeners.get(key) === known) listeners.delete(key);
      };
    },
  };
}
