/**
 * Whether nobody vouches for a server's certificate, which naming an authority helps against: not where it has ended or is of another
 * name.
 */
export function isUntrusted(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' && /ISSUER|SELF_SIGNED|SIGNATURE|UNTRUSTED/.test(code);
}
