import type { Secret } from '../../api/core.ts';
import { secrets } from '../../api/resources.ts';
import { retryOnConflict } from '../../kube/ensure.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import { internalPairData, isOf, pairOf, selfSigned, type SecretKey } from './certificate.ts';
import { createRemaker, type Remade } from './remake.ts';
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

/**
 * Follows the pair in the Secret, whoever writes it, and has it made again where it is missing. Register before the informer
 * runs. `ensure` makes Secret and pair.
 */
export function followInternalCertificate(
  informer: Informer<Secret>,
  key: SecretKey,
  parts: {
    readonly current: KeyPair;
    onPair(pair: KeyPair): void;
  } & Omit<Remade, 'what'>,
): void {
  const { onPair } = parts;
  let { cert } = parts.current;
  const remake = createRemaker({ ...parts, what: 'the internal certificate' });

  informer.onChange(({ kind, object }) => {
    if (!isOf(object, key)) return;
    const pair = kind === 'deleted' ? undefined : pairOf(object, 'internal');
    if (pair === undefined) {
      remake();
      return;
    }
    if (pair.cert === cert) return;
    ({ cert } = pair);
    onPair(pair);
  });
}
