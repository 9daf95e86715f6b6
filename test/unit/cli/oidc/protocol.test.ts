import { describe, expect, test } from 'vitest';
import {
  checkedIssuer,
  chooseClient,
  discoveryAddress,
  readDevice,
  readDiscovery,
  readPoll,
  readRenewal,
  readTokens,
  scopesFor,
} from '../../../../src/cli/oidc/protocol.ts';
import { client, device, discovery, issuerUrl, ok, refused } from './builders.ts';

describe('issuer and client', () => {
  const told = { issuerUrl, clientId: 'told' };

  test('are those of the command line, else those of the installation', () => {
    expect(chooseClient({}, told)).toEqual(told);
    expect(chooseClient({ clientId: 'mine' }, told)).toEqual({ issuerUrl, clientId: 'mine' });
    expect(chooseClient({ issuerUrl }, told)).toEqual(told);
    expect(chooseClient({ issuerUrl: 'https://other.example.com', clientId: 'mine' }, told)).toEqual({
      issuerUrl: 'https://other.example.com',
      clientId: 'mine',
    });
  });

  test.each([
    ['nothing is known', {}, undefined, '--oidc-issuer-url is needed'],
    ['only a client is given', { clientId: 'mine' }, undefined, '--oidc-issuer-url is needed'],
    ['only an issuer is given', { issuerUrl }, undefined, '--oidc-client-id is needed'],
    [
      "the installation's client is another issuer's",
      { issuerUrl: 'https://o.example.com' },
      told,
      '--oidc-client-id',
    ],
  ])('are asked for where %s', (_, given, told, why) => {
    expect(() => chooseClient(given, told)).toThrow(why);
  });

  test.each([
    'https://a.example.com',
    'https://a.example.com/realms/x/',
    'http://localhost:1',
    'http://127.0.0.1:5556/dex',
    'http://[::1]:1',
  ])('an issuer may be %s, and stays as it is', (address) => {
    expect(checkedIssuer(address)).toBe(address);
  });

  test.each([
    'http://login.example.com',
    'http://localhost.example.com',
    'http://127.0.0.1.example.com',
    'ftp://login.example.com',
    'login.example.com',
    'https://user:secret@login.example.com',
    'https://login.example.com?tenant=a',
    'https://login.example.com#a',
    '',
  ])('an issuer may not be "%s"', (address) => {
    expect(() => checkedIssuer(address)).toThrow('--oidc-issuer-url');
  });
});

describe('the discovery document', () => {
  test('lies below the issuer, with one slash between', () => {
    const well = 'https://a.example.com/x/.well-known/openid-configuration';
    expect([
      discoveryAddress('https://a.example.com/x'),
      discoveryAddress('https://a.example.com/x/'),
    ]).toEqual([well, well]);
  });

  test('says where devices log in and with which scopes', () => {
    expect(readDiscovery(ok(discovery), issuerUrl)).toEqual({
      token: `${issuerUrl}/token`,
      deviceAuthorization: `${issuerUrl}/device`,
      scopes: ['openid', 'offline_access', 'email'],
    });
  });

  test.each([
    [
      'another issuer',
      { ...discovery, issuer: `${issuerUrl}/` },
      'calls itself https://login.example.com/;',
      'BadGateway',
    ],
    ['no issuer', { ...discovery, issuer: 1 }, 'has no OpenID discovery document', 'BadGateway'],
    ['no JSON', undefined, 'has no OpenID discovery document', 'BadGateway'],
    [
      'no device login',
      { ...discovery, device_authorization_endpoint: undefined },
      'has no device login',
      'NotImplemented',
    ],
    [
      'plain http',
      { ...discovery, token_endpoint: 'http://login.example.com/token' },
      'is not https',
      'BadGateway',
    ],
    ['no token endpoint', { ...discovery, token_endpoint: undefined }, 'is not https', 'BadGateway'],
  ])('is refused with %s', (_, document, why, reason) => {
    expect(() => readDiscovery(ok(document), issuerUrl)).toThrow(
      expect.objectContaining({ reason, message: expect.stringContaining(why) }),
    );
  });

  test('that is not there names its address and the status', () => {
    expect(() => readDiscovery({ status: 302, value: undefined }, issuerUrl)).toThrow(
      `${issuerUrl}/.well-known/openid-configuration with HTTP 302`,
    );
  });

  test.each([
    [[], 'openid offline_access'],
    [['openid'], 'openid'],
    [['openid', 'email', 'groups', 'offline_access', 'address'], 'openid offline_access email groups'],
  ])('of scopes %j those are asked for that name a user', (scopes, asked) => {
    expect(scopesFor({ scopes })).toBe(asked);
  });
});

describe('a device code', () => {
  test('is where to enter what', () => {
    expect(readDevice(ok(device), client)).toEqual({
      deviceCode: 'canary-device-code',
      userCode: 'ABCD-EFGH',
      address: `${issuerUrl}/activate`,
      completeAddress: `${issuerUrl}/activate?user_code=ABCD-EFGH`,
      intervalMs: 5000,
      expiresInMs: 300_000,
    });
  });

  test('is asked for every five seconds, for an hour, where nothing is said, and never for longer', () => {
    const { device_code, user_code, verification_uri } = device;
    const unsaid = { device_code, user_code, verification_url: verification_uri };
    expect(readDevice(ok(unsaid), client)).toMatchObject({ intervalMs: 5000, expiresInMs: 3_600_000 });
    const wrong = { ...device, interval: -1, expires_in: '300' };
    expect(readDevice(ok(wrong), client)).toMatchObject({ intervalMs: 5000, expiresInMs: 3_600_000 });
    const long = { ...device, interval: 1e9, expires_in: 1e9 };
    expect(readDevice(ok(long), client)).toMatchObject({ intervalMs: 60_000, expiresInMs: 3_600_000 });
  });

  test.each([
    { ...device, device_code: undefined },
    { ...device, user_code: '' },
    { ...device, verification_uri: 'javascript:alert(1)' },
    'text',
  ])('is refused where it is none: %j', (value) => {
    expect(() => readDevice(ok(value), client)).toThrow(`${issuerUrl} gave no device code`);
  });

  test.each([
    ['invalid_client', '--oidc-client-id'],
    ['unauthorized_client', 'must be allowed the device login'],
    ['invalid_scope', 'must be allowed those of openid'],
  ])('that is refused with %s says what to change', (error, why) => {
    expect(() => readDevice(refused(error, 401), client)).toThrow(
      expect.objectContaining({
        reason: 'BadRequest',
        message: expect.stringMatching(`^${issuerUrl} refuses client svc3 \\(${error}\\): .*${why}`),
      }),
    );
  });

  test('that is refused without a reason names the status', () => {
    expect(() => readDevice({ status: 404, value: undefined }, client)).toThrow(
      `${issuerUrl} answers with HTTP 404`,
    );
    expect(() => readDevice({ status: 502, value: undefined }, client)).toThrow(
      expect.objectContaining({ reason: 'ServiceUnavailable' }),
    );
    expect(() => readDevice(refused('constructor'), client)).toThrow('answers with HTTP 400');
  });
});

describe('a poll', () => {
  test.each([
    ['authorization_pending', 400, 5000],
    ['slow_down', 400, 10_000],
    ['slow_down', 429, 10_000],
    ['temporarily_unavailable', 503, 10_000],
    ['', 429, 10_000],
  ])('that is answered "%s" (%i) goes on after %i ms', (error, status, intervalMs) => {
    expect(readPoll(refused(error, status), client, 5000)).toEqual({ kind: 'wait', intervalMs });
  });

  test.each([
    ['access_denied', 'Forbidden', 'was refused in the browser; nothing was saved'],
    ['expired_token', 'Timeout', 'run svc3 login again'],
    ['invalid_grant', 'BadRequest', 'does not know the code'],
    ['unsupported_grant_type', 'BadRequest', 'must be allowed the device login'],
  ])('that is answered %s is %s', (error, reason, why) => {
    expect(() => readPoll(refused(error), client, 5000)).toThrow(
      expect.objectContaining({ reason, message: expect.stringContaining(why) }),
    );
  });

  test('ends with the tokens', () => {
    const reply = ok({ id_token: 'i', refresh_token: 'r', access_token: 'a' });
    expect(readPoll(reply, client, 5000)).toEqual({
      kind: 'tokens',
      tokens: { idToken: 'i', refreshToken: 'r' },
    });
    expect(readTokens(ok({ id_token: 'i' }), client)).toEqual({ idToken: 'i' });
    expect(() => readTokens(ok({ id_token: 'a\r\nx-canary: b' }), client)).toThrow('gave no ID token');
    expect(() => readTokens(ok({ access_token: 'canary' }), client)).toThrow(
      `${issuerUrl} gave no ID token; may client svc3 use scope openid?`,
    );
  });
});

test('a renewal that is refused for good is another refusal than one that fails', () => {
  expect(() => readRenewal(refused('invalid_grant'), client)).toThrow(
    expect.objectContaining({ reason: 'Unauthorized', message: expect.stringContaining('refresh token') }),
  );
  expect(() => readRenewal(refused('', 503), client)).toThrow(
    expect.objectContaining({ reason: 'ServiceUnavailable' }),
  );
  expect(readRenewal(ok({ id_token: 'i' }), client)).toEqual({ idToken: 'i' });
});

test('no refusal quotes the sentence of the issuer', () => {
  for (const error of ['access_denied', 'expired_token', 'invalid_client', 'invalid_grant', 'strange'])
    expect(() => readPoll(refused(error), client, 5000)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('canary') }),
    );
});
