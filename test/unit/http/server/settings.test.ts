import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { readSettings } from '../../../../src/config.ts';
import { ApiSettings, httpSettingsOf } from '../../../../src/http/server/settings.ts';

const oidcOf = (environment: Record<string, string>) =>
  httpSettingsOf(readSettings(ApiSettings, environment), { server: 'https://k' }).oidc;
const issuerUrl = 'https://login.example.com/realms/a/';

test('issuer and client of the login are told as they are set, or not at all', () => {
  expect(oidcOf({ SVC3_OIDC_ISSUER_URL: issuerUrl, SVC3_OIDC_CLIENT_ID: 'svc3' })).toEqual({
    issuerUrl,
    clientId: 'svc3',
  });
  expect(oidcOf({ SVC3_OIDC_ISSUER_URL: '', SVC3_OIDC_CLIENT_ID: '' })).toBeUndefined();
});

test.each([
  ['an issuer alone', { SVC3_OIDC_ISSUER_URL: issuerUrl }],
  ['a client alone', { SVC3_OIDC_CLIENT_ID: 'svc3' }],
  [
    'an issuer with a password',
    { SVC3_OIDC_ISSUER_URL: 'https://me:it@login.example.com', SVC3_OIDC_CLIENT_ID: 'svc3' },
  ],
  ['plain http', { SVC3_OIDC_ISSUER_URL: 'http://login.example.com', SVC3_OIDC_CLIENT_ID: 'svc3' }],
])('%s is refused', (_, environment) => {
  expect(() => oidcOf(environment)).toThrow('SVC3_OIDC_ISSUER_URL');
});

test.each(['SVC3_API_BASE_URL', 'SVC3_CLUSTER_ENDPOINT'])(
  '%s has no credentials in it: everybody is told it',
  (name) => {
    for (const login of ['me:it@', 'me@', ':it@'])
      expect(() => readSettings(ApiSettings, { [name]: `https://${login}vms.example.com` })).toThrow(name);
    expect(() => readSettings(ApiSettings, { [name]: 'https://vms.example.com/a@b' })).not.toThrow();
  },
);

test("the cluster's CA is told as it is now: a rotation needs no restart", async () => {
  const folder = await mkdtemp(join(tmpdir(), 'svc3-settings-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const file = join(folder, 'ca.crt');
  await writeFile(file, 'old');
  const { clusterCaPem } = httpSettingsOf(readSettings(ApiSettings, {}), {
    server: 'https://k',
    ca: { file },
  });
  expect(await clusterCaPem()).toBe('old');
  await writeFile(file, 'new');
  expect(await clusterCaPem()).toBe('new');
});

test('a cluster whose CA is not named has an empty one', async () => {
  expect(await httpSettingsOf(readSettings(ApiSettings, {}), { server: 'https://k' }).clusterCaPem()).toBe(
    '',
  );
});
