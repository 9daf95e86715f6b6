import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  sign,
  verify,
  type KeyObject,
} from 'node:crypto';

/** What a token allows; one action each, so that a token for reading the state cannot stop a VM. */
export const controlActions = [
  'state',
  'power',
  'claim',
  'resize',
  'eject',
  'ports',
  'export',
  'vnc',
  'serial',
  'tunnel',
  'usage',
] as const;
export type ControlAction = (typeof controlActions)[number];

export interface ControlClaims {
  /** UID of the VM; of the pod where its guest is nobody's yet, or is to be claimed. */
  readonly vmUid: string;
  readonly action: ControlAction;
  /** SHA-256 of the certificate that the caller sees: a token relayed by somebody in between is void. */
  readonly fingerprint: string;
  /** End of validity, seconds since 1970. */
  readonly exp: number;
  /** What may be done one time in all, whoever asks: a stream that names it again is refused. */
  readonly once?: string;
}

/** How long a token is good for; the caller makes one per request. */
export const tokenLifetimeSeconds = 60;
/**
 * By how many seconds the clocks of who makes a token and of the node of who takes it may differ, either way; a token that ends later than that
 * allows is refused, so that none can be stored up. A runner remembers uses (`once`) for longer than one can be good for: its life and this twice.
 */
const clockSkewSeconds = 240;
const prefix = 'svc3c1';

/** Why a token was refused: a sentence without any part of it. */
export class TokenError extends Error {
  override readonly name = 'TokenError';
}

export function createControlKey(): { privateKey: KeyObject; publicKey: string } {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { privateKey, publicKey: encodePublicKey(publicKey) };
}

/** The raw 32 bytes as base64url, the form of annotation `svc3.dev/control-keys`. */
export function encodePublicKey(key: KeyObject): string {
  const { x } = (key.type === 'private' ? createPublicKey(key) : key).export({ format: 'jwk' });
  if (x === undefined) throw new TokenError('the key is not an Ed25519 key');
  return x;
}

/**
 * Reads a PKCS#8 PEM of the installation's key.
 *
 * @throws TokenError for a key that is not Ed25519, Error of node:crypto for what is no key
 */
export function readPrivateKey(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== 'ed25519') throw new TokenError('the key is not an Ed25519 key');
  return key;
}

/** Entries of the Secret: `current` signs, `previous` is still accepted during a rotation. */
const keyEntries = ['current', 'previous'] as const;

/**
 * The private keys in the installation's Secret, that which signs first.
 *
 * @param data - entries of the Secret, in base64; what it has beside `current` and `previous` is somebody else's
 * @returns also the entries that are there and hold no key, as one that was cut short
 */
export function readControlKeys(data: Readonly<Record<string, string>> = {}): {
  keys: KeyObject[];
  unreadable: string[];
} {
  const keys: KeyObject[] = [];
  const unreadable: string[] = [];
  for (const entry of keyEntries) {
    const text = data[entry];
    if (text === undefined) continue;
    try {
      keys.push(readPrivateKey(Buffer.from(text, 'base64').toString('utf8')));
    } catch {
      unreadable.push(entry);
    }
  }
  return { keys, unreadable };
}

/** Keys of the annotation, separated by commas or white space (two during a rotation); what is no key is left out. */
export function parseControlKeys(text: string): KeyObject[] {
  return text
    .split(/[\s,]+/)
    .filter((word) => /^[A-Za-z0-9_-]{43}$/.test(word))
    .map((x) => createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' }));
}

/** `svc3c1.<claims>.<signature>`, both base64url. */
export function signControlToken(claims: ControlClaims, privateKey: KeyObject): string {
  const payload = `${prefix}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}`;
  return `${payload}.${sign(null, Buffer.from(payload), privateKey).toString('base64url')}`;
}

export interface ExpectedClaims {
  readonly vmUid: string;
  readonly action: ControlAction;
  readonly fingerprint: string;
  readonly nowSeconds: number;
}

/** Returns the claims, or throws `TokenError`. The signature is checked before any claim is read. */
export function verifyControlToken(
  token: string,
  keys: readonly KeyObject[],
  expected: ExpectedClaims,
): ControlClaims {
  const [head, body, signature, ...rest] = token.split('.');
  if (head !== prefix || body === undefined || signature === undefined || rest.length > 0)
    throw new TokenError('not a control token');
  const signed = Buffer.from(`${head}.${body}`);
  const bytes = Buffer.from(signature, 'base64url');
  if (!keys.some((key) => verify(null, signed, key, bytes))) throw new TokenError('signed by no known key');
  const claims = readClaims(body);
  if (claims.vmUid !== expected.vmUid) throw new TokenError('meant for another VM');
  if (claims.action !== expected.action)
    throw new TokenError(`meant for another action than ${expected.action}`);
  if (claims.fingerprint !== expected.fingerprint) throw new TokenError('made for another certificate');
  requireCurrent(claims.exp, expected.nowSeconds);
  return claims;
}

/** Callers make a token for each request: where it is not current it is the clocks that differ. */
function requireCurrent(exp: number, nowSeconds: number): void {
  const aheadSeconds = Math.round(nowSeconds - (exp - tokenLifetimeSeconds));
  if (nowSeconds >= exp + clockSkewSeconds)
    throw new TokenError(`expired: its caller's clock is ${aheadSeconds} s behind this node's`);
  if (nowSeconds < exp - tokenLifetimeSeconds - clockSkewSeconds)
    throw new TokenError(`valid for too long: its caller's clock is ${-aheadSeconds} s ahead of this node's`);
}

function readClaims(body: string): ControlClaims {
  let value: unknown;
  try {
    value = JSON.parse(Buffer.from(body, 'base64url').toString('utf8'));
  } catch (cause) {
    throw new TokenError('claims are not JSON', { cause });
  }
  const claims = value as Partial<ControlClaims> | null;
  if (
    typeof claims !== 'object' ||
    claims === null ||
    typeof claims.vmUid !== 'string' ||
    typeof claims.fingerprint !== 'string' ||
    typeof claims.exp !== 'number' ||
    !controlActions.some((action) => action === claims.action) ||
    (claims.once !== undefined && typeof claims.once !== 'string')
  )
    throw new TokenError('claims are incomplete');
  return claims as ControlClaims;
}
