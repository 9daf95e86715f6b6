import { X509Certificate } from 'node:crypto';
import { getCACertificates } from 'node:tls';
import { expect, test, vi } from 'vitest';
import { isUntrusted, trustingMachine } from '../../../src/cli/authorities.ts';

const failure = (code: string) => Object.assign(new Error('failed'), { code });
const untrusted = failure('UNABLE_TO_GET_ISSUER_CERT_LOCALLY');

test('a certificate that nobody vouches for is one also where the error is told in other words', () => {
  expect(isUntrusted(new Error('cannot reach it', { cause: untrusted }))).toBe(true);
  expect(isUntrusted(new Error('cannot reach it', { cause: failure('CERT_HAS_EXPIRED') }))).toBe(false);
  expect(isUntrusted('SELF_SIGNED_CERT_IN_CHAIN')).toBe(false);
});

test('the authorities of the machine are read where one is wanted, once, and by all that wait', async () => {
  const before = getCACertificates('default').length;
  const reached = vi.fn<() => Promise<string>>().mockResolvedValue('reached');
  expect(await trustingMachine(reached)).toBe('reached');
  const refused = vi.fn<() => Promise<string>>().mockRejectedValue(failure('ECONNREFUSED'));
  await expect(trustingMachine(refused)).rejects.toThrow('failed');
  expect([reached.mock.calls.length, refused.mock.calls.length]).toEqual([1, 1]);
  expect(getCACertificates('default')).toHaveLength(before);

  const first = vi.fn<() => Promise<string>>().mockRejectedValueOnce(untrusted).mockResolvedValue('reached');
  const second = vi.fn<() => Promise<string>>().mockRejectedValueOnce(untrusted).mockResolvedValue('too');
  expect(await Promise.all([trustingMachine(first), trustingMachine(second)])).toEqual(['reached', 'too']);
  const fingerprints = (type: 'default' | 'system') =>
    new Set(getCACertificates(type).map((pem) => new X509Certificate(pem).fingerprint256));
  expect([...fingerprints('system').difference(fingerprints('default'))]).toEqual([]);

  const later = vi.fn<() => Promise<string>>().mockRejectedValue(untrusted);
  await expect(trustingMachine(later)).rejects.toBe(untrusted);
  expect(later).toHaveBeenCalledTimes(1);
});
