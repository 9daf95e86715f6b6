import { sign, timingSafeEqual, verify, type KeyObject } from 'node:crypto';
import { TokenError } from './token.ts';

const prefix = 'svc3m1';

/**
 * `svc3m1.<namespace>.<signature>` (base64url): good for reading the metrics of the VMs of that namespace and for nothing else, for as long
 * as the control key is one that runners take. Prometheus sends the same one each time, so it neither ends nor names a VM.
 * The same key and namespace always give the same token.
 */
export function signMetricsToken(namespace: string, privateKey: KeyObject): string {
  const payload = `${prefix}.${namespace}`;
  return `${payload}.${sign(null, Buffer.from(payload), privateKey).toString('base64url')}`;
}

/** Throws `TokenError` unless one of the keys has signed it for this namespace. */
export function verifyMetricsToken(token: string, keys: readonly KeyObject[], namespace: string): void {
  const payload = `${prefix}.${namespace}`;
  const cut = token.lastIndexOf('.');
  if (!isSame(token.slice(0, Math.max(cut, 0)), payload))
    throw new TokenError('not a token for the metrics of this namespace');
  const signature = Buffer.from(token.slice(cut + 1), 'base64url');
  if (!keys.some((key) => verify(null, Buffer.from(payload), key, signature)))
    throw new TokenError('signed by no known key');
}

/** As `verifyMetricsToken`; a token that was good is not verified again while the keys are the same array. */
export function createMetricsTokenVerifier(
  namespace: string,
): (token: string, keys: readonly KeyObject[]) => void {
  let good: { readonly token: string; readonly keys: readonly KeyObject[] } | undefined;
  return (token, keys) => {
    if (good?.keys === keys && isSame(good.token, token)) return;
    verifyMetricsToken(token, keys, namespace);
    good = { token, keys };
  };
}

function isSame(a: string, b: string): boolean {
  const [one, other] = [Buffer.from(a), Buffer.from(b)];
  return one.length === other.length && timingSafeEqual(one, other);
}
