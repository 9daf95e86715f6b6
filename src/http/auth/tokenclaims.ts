/** What a token says of itself. Nobody has checked it: good for refusing a caller, never for letting one in. */
export interface TokenClaims {
  /** UID of the ServiceAccount that the token is of. */
  readonly accountUid?: string;
  /** When it ends, in milliseconds since 1970. */
  readonly expiresAt?: number;
}

interface Payload {
  readonly exp?: unknown;
  readonly 'kubernetes.io'?: { readonly serviceaccount?: { readonly uid?: unknown } };
  /** Of tokens that lie in Secrets. */
  readonly 'kubernetes.io/serviceaccount/service-account.uid'?: unknown;
}

function payloadOf(token: string): Payload | undefined {
  const parts = token.split('.');
  if (parts.length !== 3) return undefined;
  try {
    const payload: unknown = JSON.parse(Buffer.from(parts[1] ?? '', 'base64url').toString('utf8'));
    return typeof payload === 'object' && payload !== null ? payload : undefined;
  } catch {
    return undefined;
  }
}

/** The claims of a JSON web token (RFC 7519); of any other token nothing is known. */
export function readTokenClaims(token: string): TokenClaims {
  const payload = payloadOf(token);
  if (payload === undefined) return {};
  const { exp } = payload;
  const uid =
    payload['kubernetes.io']?.serviceaccount?.uid ??
    payload['kubernetes.io/serviceaccount/service-account.uid'];
  return {
    ...(typeof uid === 'string' ? { accountUid: uid } : {}),
    ...(typeof exp === 'number' && Number.isFinite(exp) ? { expiresAt: exp * 1000 } : {}),
  };
}
