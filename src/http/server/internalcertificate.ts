import { setTimeout as delay } from 'node:timers/promises';
import type { Secret } from '../../api/core.ts';
import { secrets } from '../../api/resources.ts';
import { backoffDelay } from '../../backoff.ts';
import { messageOf } from '../../errors.ts';
import { retryOnConflict } from '../../kube/ensure.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import { internalPairData, isOf, pairOf, selfSigned, type SecretKey } from './certificate.ts';
import type { AccessLog } from '../call/services.ts';
import type { KeyPair } from './tls.ts';

/**
 * The certificate for names inside the cluster, made and kept in the same Secret beside the one that clients see: a
 * certificate that somebody uploads is not for these names, and kube-apiserver trusts exactly this one (`caBundle`). Of several
 * replicas that make it at once one wins, and all return the winner's.
 */
export async function ensureInternalCertificate(
  client: KubeClient,
  key: SecretKey,
  names: readonly string[],
): Promise<KeyPair> {
  let made: KeyPair | undefined;
  return retryOnConflict(async () => {
    const secret = await client.get(secrets, key.name, key.namespace);
    const found = pairOf(secret, 'internal');
    if (found !== undefined) return found;
    made ??= await selfSigned(names);
    const { uid, resourceVersion } = secret.metadata;
    // With resourceVersion: the pair of a replica that was faster stays.
    const body = { metadata: { uid, resourceVersion }, stringData: internalPairData(made) };
    const written = await client.patch(secrets, key, { type: 'merge', body });
    return pairOf(written, 'internal') ?? made;
  });
}

const retryTimes = { baseMs: 500, maxMs: 30_000, jitter: 0.5 } as const;

/**
 * Follows the pair in the Secret, whoever writes it, and has it made again where it is missing. Register before the informer
 * runs.
 */
export function followInternalCertificate(
  informer: Informer<Secret>,
  key: SecretKey,
  parts: {
    readonly current: KeyPair;
    onPair(pair: KeyPair): void;
    /** Makes Secret and pair where they are missing. */
    ensure(): Promise<unknown>;
    readonly log: AccessLog;
    readonly signal: AbortSignal;
  },
): void {
  const { onPair, log, signal } = parts;
  let { cert } = parts.current;
  let isEnsuring = false;

  async function ensure(): Promise<void> {
    if (isEnsuring) return;
    isEnsuring = true;
    for (let failures = 1; !signal.aborted; failures += 1)
      try {
        await parts.ensure();
        break;
      } catch (error) {
        log.warn({ err: messageOf(error) }, 'could not make the internal certificate again');
        await delay(backoffDelay(failures, retryTimes), undefined, { signal, ref: false }).catch(
          () => undefined,
        );
      }
    isEnsuring = false;
  }

  informer.onChange(({ kind, object }) => {
    if (!isOf(object, key)) return;
    const pair = kind === 'deleted' ? undefined : pairOf(object, 'internal');
    if (pair === undefined) {
      void ensure();
      return;
    }
    if (pair.cert === cert) return;
    ({ cert } = pair);
    onPair(pair);
  });
}
