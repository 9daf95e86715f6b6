import { expect, test } from 'vitest';
import { readSettings } from '../../../../src/config.ts';
import { reportCertificate, selfSigned } from '../../../../src/http/server/certificate.ts';
import { ApiSettings, certificateNames, outsideNames } from '../../../../src/http/server/settings.ts';

const key = { namespace: 'svc3-system', name: 'svc3-api-tls' };
const settingsWith = (environment: Record<string, string>) => readSettings(ApiSettings, environment);

/** What the log warns of where this certificate is taken and the api has this base URL. */
async function warnings(names: readonly string[], baseUrl: string | undefined): Promise<string[]> {
  const said: string[] = [];
  const log = {
    debug() {},
    info() {},
    error() {},
    warn: (_: object, message: string) => void said.push(message),
  };
  const settings = settingsWith(baseUrl === undefined ? {} : { SVC3_API_BASE_URL: baseUrl });
  reportCertificate(await selfSigned(names), key, outsideNames(settings), log);
  return said;
}

test.each<[string, readonly string[], string | undefined]>([
  ['its own, where there is no base URL', certificateNames(settingsWith({})), undefined],
  [
    'its own, made with the base URL',
    certificateNames(settingsWith({ SVC3_API_BASE_URL: 'https://vms.example.com:8443' })),
    'https://vms.example.com:8443',
  ],
  ['one for a wildcard', ['*.example.com'], 'https://vms.example.com'],
  ['one for an IPv4 address', ['192.0.2.7'], 'https://192.0.2.7'],
  ['one for an IPv6 address', ['2001:db8::7'], 'https://[2001:db8::7]:8443'],
])('a certificate that clients accept is not warned of: %s', async (_, names, baseUrl) => {
  expect(await warnings(names, baseUrl)).toEqual([]);
});

test.each([
  ['a name', 'https://vms.example.com', 'vms.example.com'],
  ['an address', 'https://192.0.2.7:8443', '192.0.2.7'],
])('one made before the base URL had %s is, with the host and what helps', async (_, baseUrl, host) => {
  expect(await warnings(certificateNames(settingsWith({})), baseUrl)).toEqual([
    expect.stringMatching(
      new RegExp(`^the certificate is not for ${RegExp.escape(host)} of api.baseUrl.*delete the Secret`),
    ),
  ]);
});
