import { X509Certificate } from 'node:crypto';
import { expect, test } from 'vitest';
import { createCertificate } from '../../../src/runner/certificate.ts';
import { fingerprintOf } from '../../../src/runnerapi/fingerprint.ts';

test('a certificate has one fingerprint, as PEM and as DER: what openssl prints, without colons', () => {
  const { certificate } = createCertificate('vm-1');
  const parsed = new X509Certificate(certificate);
  const expected = parsed.fingerprint256.replaceAll(':', '').toLowerCase();
  expect([fingerprintOf(certificate), fingerprintOf(parsed.raw)]).toEqual([expected, expected]);
});
