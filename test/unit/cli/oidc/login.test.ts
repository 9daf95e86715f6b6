import { expect, test } from 'vitest';
import { Svc3Error } from '../../../../src/errors.ts';
import { deviceLogin, renewTokens } from '../../../../src/cli/oidc/login.ts';
import type { DeviceCode, IssuerReply } from '../../../../src/cli/oidc/protocol.ts';
import { anIssuer, client, device, issuerUrl, ok, refused } from './builders.ts';

const pending = refused('authorization_pending');
const tokens = ok({ id_token: 'id', refresh_token: 'refresh' });

/** A device login against replies of the token endpoint; time goes on while it waits, and only then. */
function aLogin(polls: readonly (IssuerReply | Error)[], onSleep: (slept: number) => void = () => {}) {
  const issuer = anIssuer([ok(device), ...polls]);
  const abort = new AbortController();
  const sleeps: number[] = [];
  const shown: DeviceCode[] = [];
  let nowMs = 0;
  const result = deviceLogin({
    issuer,
    client,
    signal: abort.signal,
    show: (code) => shown.push(code),
    now: () => new Date(nowMs),
    sleep(ms) {
      sleeps.push(ms / 1000);
      nowMs += ms;
      onSleep(sleeps.length);
      return Promise.resolve();
    },
  });
  return { result, issuer, abort, sleeps, shown };
}

test('a device login shows its code and asks until it is confirmed', async () => {
  const { result, issuer, sleeps, shown } = aLogin([pending, pending, tokens]);
  expect(await result).toEqual({ idToken: 'id', refreshToken: 'refresh' });
  expect(shown).toEqual([
    expect.objectContaining({ userCode: 'ABCD-EFGH', address: `${issuerUrl}/activate` }),
  ]);
  expect(sleeps).toEqual([5, 5, 5]);
  const poll = {
    grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
    device_code: 'canary-device-code',
    client_id: 'svc3',
  };
  expect(issuer.asked).toEqual([
    [`${issuerUrl}/.well-known/openid-configuration`],
    [`${issuerUrl}/device`, { client_id: 'svc3', scope: 'openid offline_access email' }],
    ...[1, 2, 3].map(() => [`${issuerUrl}/token`, poll]),
  ]);
});

test('it asks five seconds later for good where it is told to slow down', async () => {
  const { result, sleeps } = aLogin([refused('slow_down'), pending, refused('slow_down'), tokens]);
  await result;
  expect(sleeps).toEqual([5, 10, 10, 15]);
});

test('it asks half as often where the issuer is away', async () => {
  const away = new Svc3Error('ServiceUnavailable', 'cannot reach it');
  const { result, sleeps } = aLogin([away, refused('', 503), tokens]);
  await result;
  expect(sleeps).toEqual([5, 10, 20]);
});

test('it ends when its code does, although the issuer says nothing', async () => {
  const { result, sleeps } = aLogin(Array.from({ length: 100 }, () => pending));
  await expect(result).rejects.toMatchObject({ reason: 'Timeout' });
  expect(sleeps.reduce((sum, each) => sum + each)).toBe(300);
});

test.each([
  ['access_denied', 'Forbidden'],
  ['expired_token', 'Timeout'],
  ['invalid_client', 'BadRequest'],
])('it ends at once when it is answered %s', async (error, reason) => {
  const { result, sleeps } = aLogin([pending, refused(error)]);
  await expect(result).rejects.toMatchObject({ reason });
  expect(sleeps).toHaveLength(2);
});

test('it ends when its user interrupts it', async () => {
  const login = aLogin([pending, pending, pending], (slept) => {
    if (slept === 2) login.abort.abort();
  });
  await expect(login.result).rejects.toThrow('aborted');
  expect(login.sleeps).toHaveLength(2);
});

test('a renewal sends the refresh token to the token endpoint, and nowhere else', async () => {
  const issuer = anIssuer([tokens]);
  expect(await renewTokens(issuer, client, 'old')).toEqual({ idToken: 'id', refreshToken: 'refresh' });
  expect(issuer.asked).toEqual([
    [`${issuerUrl}/.well-known/openid-configuration`],
    [`${issuerUrl}/token`, { grant_type: 'refresh_token', refresh_token: 'old', client_id: 'svc3' }],
  ]);
});
