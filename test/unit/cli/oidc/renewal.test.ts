import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createConfigStore, type Config } from '../../../../src/cli/config.ts';
import { createOidcToken } from '../../../../src/cli/oidc/renewal.ts';
import type { IssuerReply } from '../../../../src/cli/oidc/protocol.ts';
import { Svc3Error } from '../../../../src/errors.ts';
import { aToken, anIssuer, issuerUrl, ok, refused, type ScriptedIssuer } from './builders.ts';

const nowSeconds = 1_800_000_000;
const anHour = (leftMinutes: number) =>
  aToken({ iat: nowSeconds + (leftMinutes - 60) * 60, exp: nowSeconds + leftMinutes * 60 });

const login = {
  baseUrl: 'https://svc3.example.com',
  namespace: 'team',
  loginIssuer: issuerUrl,
  loginClient: 'svc3',
  refreshToken: 'canary-first',
};

/** The configuration of a user, and processes that use it. */
async function aUser(saved: Config, replies: readonly (IssuerReply | Error)[] = []) {
  const home = await mkdtemp(join(tmpdir(), 'svc3-oidc-'));
  onTestFinished(() => rm(home, { recursive: true }));
  const environment = { variables: {}, home };
  await createConfigStore(environment).write(saved);
  const issuer = anIssuer(replies);
  const opened: (string | undefined)[] = [];
  const clock = { seconds: nowSeconds };
  return {
    issuer,
    opened,
    clock,
    read: () => createConfigStore(environment).read(),
    write: (change: Config) => createConfigStore(environment).write(change),
    aProcess: (by: ScriptedIssuer = issuer) =>
      createOidcToken(saved, {
        config: createConfigStore(environment),
        now: () => new Date(clock.seconds * 1000),
        openIssuer(caFile) {
          opened.push(caFile);
          return Promise.resolve(by);
        },
      }),
  };
}

const forms = (issuer: ScriptedIssuer) => issuer.asked.flatMap(([, form]) => form?.['refresh_token'] ?? []);

test('a token that is good for a while is used as it is', async () => {
  const user = await aUser({ ...login, token: anHour(11) });
  expect(await user.aProcess()()).toBe(anHour(11));
  expect(user.opened).toEqual([]);
});

test('one that ends soon is renewed, and the new refresh token takes the place of the old one', async () => {
  const user = await aUser({ ...login, loginIssuerCaFile: '/ca', token: anHour(9) }, [
    ok({ id_token: anHour(60), refresh_token: 'second' }),
  ]);
  expect(await user.aProcess()()).toBe(anHour(60));
  expect(forms(user.issuer)).toEqual(['canary-first']);
  expect(user.opened).toEqual(['/ca']);
  expect(await user.read()).toEqual({
    ...login,
    loginIssuerCaFile: '/ca',
    token: anHour(60),
    refreshToken: 'second',
  });
});

test('one that was refused before its end is renewed, unless another process has done so', async () => {
  const user = await aUser({ ...login, token: anHour(40) }, [ok({ id_token: anHour(60) })]);
  const [token, other] = [user.aProcess(), user.aProcess()];
  expect([await token(anHour(40)), await token()]).toEqual([anHour(60), anHour(60)]);
  expect(await other(anHour(40))).toBe(anHour(60));
  expect(forms(user.issuer)).toEqual(['canary-first']);
});

test('a refresh token that is not replaced stays', async () => {
  const user = await aUser({ ...login, token: anHour(-5) }, [ok({ id_token: anHour(60) })]);
  expect(await user.aProcess()()).toBe(anHour(60));
  expect(await user.read()).toEqual({ ...login, token: anHour(60) });
});

test('of processes that renew at once one does, and the others take its token', async () => {
  const user = await aUser({ ...login, token: anHour(-1) }, [
    ok({ id_token: anHour(60), refresh_token: 'second' }),
  ]);
  const processes = Array.from({ length: 4 }, () => user.aProcess());
  const tokens = await Promise.all(processes.flatMap((token) => [token(), token()]));
  expect(new Set(tokens)).toEqual(new Set([anHour(60)]));
  expect(forms(user.issuer)).toEqual(['canary-first']);
  expect(await user.read()).toMatchObject({ refreshToken: 'second' });
});

test('a process that lives long renews again, with the refresh token of its last renewal', async () => {
  const later = aToken({ iat: nowSeconds + 3600, exp: nowSeconds + 7200 });
  const user = await aUser({ ...login, token: anHour(-1) }, [
    ok({ id_token: anHour(60), refresh_token: 'second' }),
    ok({ id_token: later, refresh_token: 'third' }),
  ]);
  const token = user.aProcess();
  expect([await token(), await token()]).toEqual([anHour(60), anHour(60)]);
  user.clock.seconds += 3599;
  expect(await token()).toBe(later);
  expect(forms(user.issuer)).toEqual(['canary-first', 'second']);
});

test('a renewal that fails lets the old token be used until its end, and is not repeated at once', async () => {
  const away = new Svc3Error('ServiceUnavailable', 'cannot reach it');
  const user = await aUser({ ...login, token: anHour(5) }, [away, ok({ id_token: anHour(60) })]);
  const token = user.aProcess();
  expect([await token(), await token()]).toEqual([anHour(5), anHour(5)]);
  expect(forms(user.issuer)).toHaveLength(1);
  user.clock.seconds += 61;
  expect(await token()).toBe(anHour(60));
});

test.each<[string, (IssuerReply | Error)[], string, string]>([
  [
    'that the issuer refuses',
    [refused('invalid_grant')],
    'Unauthorized',
    'does not take its refresh token any more',
  ],
  // Who waits may ask again.
  [
    'that fails',
    [new Svc3Error('ServiceUnavailable', 'cannot reach it')],
    'ServiceUnavailable',
    'cannot reach it',
  ],
])('after its end a renewal %s says what to do, and keeps what there is', async (_, replies, reason, why) => {
  const user = await aUser({ ...login, token: anHour(-1) }, replies);
  const refusal = await user
    .aProcess()()
    .then(
      () => undefined,
      (error: Svc3Error) => error,
    );
  expect(refusal).toMatchObject({
    reason,
    message: expect.stringMatching(
      `${why}; run svc3 login again: svc3 login https://svc3.example.com --oidc`,
    ),
  });
  expect(refusal?.message).not.toContain('canary');
  expect(await user.read()).toMatchObject({ refreshToken: 'canary-first' });
});

test('a login without a refresh token ends with its token', async () => {
  const { refreshToken: _, ...bare } = login;
  const user = await aUser({ ...bare, token: anHour(-1) });
  await expect(user.aProcess()()).rejects.toThrow(`${issuerUrl} gave no refresh token; run svc3 login again`);
  expect(user.opened).toEqual([]);
});

test.each([
  ['somebody has logged out', { token: undefined }],
  ['somebody has logged in elsewhere', { baseUrl: 'https://evil.example.com', token: 'other' }],
])('a token is not taken from another login: %s', async (_, change) => {
  const user = await aUser({ ...login, token: anHour(-1) });
  await user.write(change as Config);
  await expect(user.aProcess()()).rejects.toThrow('another svc3 has changed the login; try again');
  expect(user.opened).toEqual([]);
});
