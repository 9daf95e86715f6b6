import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { selfSigned } from '../../../../src/http/server/certificate.ts';
import { createCertificateMetrics } from '../../../../src/http/server/metrics.ts';
import { createServingTls } from '../../../../src/http/server/tls.ts';

/** Certificates of the api last for ten years. */
test('the end of each certificate that is shown, and of the one that replaces it', async () => {
  const until = async (name: string, year: number) => ({
    ...(await selfSigned([name], new Date(Date.UTC(year - 10, 6, 1)))),
    names: [name],
  });
  const registry = new Registry();
  const tls = createServingTls({ pair: await until('out', 2040), internal: await until('in', 2041) });
  createCertificateMetrics(registry, tls);
  const ends = async () =>
    [
      ...(await registry.metrics()).matchAll(
        /^svc3_certificate_expiry_timestamp_seconds{use="(\w+)"} (\d+)$/gm,
      ),
    ].map(([, use, seconds]) => [use, new Date(Number(seconds) * 1000).getUTCFullYear()]);
  expect(await ends()).toEqual([
    ['serving', 2040],
    ['internal', 2041],
  ]);
  tls.setCertificate(await until('out', 2042));
  expect((await ends())[0]).toEqual(['serving', 2042]);
});
