import { createHash, X509Certificate } from 'node:crypto';

/** SHA-256 over the DER of a certificate, lower-case hex: how a runner's certificate is named in pins and tokens. */
export function fingerprintOf(certificate: Buffer | string): string {
  const der = typeof certificate === 'string' ? new X509Certificate(certificate).raw : certificate;
  return createHash('sha256').update(der).digest('hex');
}
