import { randomBytes } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { createSealer } from '../../../../src/http/auth/seals.ts';
import { createSessions, type Sessions } from '../../../../src/http/ui/sessions.ts';

let now: number;
let sessions: Sessions;
const seals = createSealer(randomBytes(32));

beforeEach(() => {
  now = 1_000_000_000;
  sessions = createSessions(seals, () => now);
});

const valueOf = (setCookie: string) => setCookie.split(';', 1)[0] ?? '';

describe('the cookie of a session', () => {
  test('is for the page only, and named after the installation', () => {
    const cookie = sessions.begin('token', now + 60_000);
    expect(cookie).toMatch(/; Path=\/ui; Max-Age=60; Secure; HttpOnly; SameSite=Strict$/);
    expect(cookie.startsWith(`__Secure-svc3-ui-${seals.keyId}=`)).toBe(true);
    expect(cookie).not.toContain('token');
    expect(sessions.tokenOf(`other=1; ${valueOf(cookie)}`)).toBe('token');
  });

  test('is nothing to another installation', () => {
    const other = createSessions(createSealer(randomBytes(32)), () => now);
    expect(other.tokenOf(valueOf(sessions.begin('token', undefined)))).toBeUndefined();
  });

  test('ends with its token, whatever the browser keeps', () => {
    const cookie = valueOf(sessions.begin('token', now + 60_000));
    now += 61_000;
    expect(sessions.tokenOf(cookie)).toBeUndefined();
  });

  test('does not begin with a token that has ended', () => {
    expect(() => sessions.begin('token', now)).toThrow('the token has ended');
  });

  test('ends after twelve hours where the token does not say when it ends', () => {
    const cookie = sessions.begin('token', undefined);
    expect(cookie).toContain(`Max-Age=${12 * 3600};`);
    now += 12 * 3_600_000 + 1_000;
    expect(sessions.tokenOf(valueOf(cookie))).toBeUndefined();
  });

  test('is refused where no browser would keep it', () => {
    expect(() => sessions.begin(randomBytes(4000).toString('base64url'), undefined)).toThrow('too large');
  });

  test('is forgotten at the end', () => {
    expect(sessions.end()).toMatch(/^__Secure-svc3-ui-\w+=; Path=\/ui; Max-Age=0;/);
    expect(sessions.tokenOf(valueOf(sessions.end()))).toBeUndefined();
  });
});

describe('a code', () => {
  test('holds the token for a minute, under an id of its own', () => {
    const { code, exp } = sessions.codeOf('token', undefined);
    expect(exp).toBe(now / 1000 + 60);
    const { token, id } = sessions.openCode(code);
    expect([token, id === sessions.openCode(sessions.codeOf('token', undefined).code).id]).toEqual([
      'token',
      false,
    ]);
    now += 61_000;
    expect(() => sessions.openCode(code)).toThrow('older than a minute');
  });

  test('is no session, and a session is no code', () => {
    const { code } = sessions.codeOf('token', undefined);
    const cookie = valueOf(sessions.begin('token', undefined));
    const [name, value = ''] = cookie.split('=');
    expect(sessions.tokenOf(`${name}=${code}`)).toBeUndefined();
    expect(() => sessions.openCode(value)).toThrow('not valid');
  });

  test('does not outlive its token', () => {
    expect(sessions.codeOf('token', now + 10_000).exp).toBe(now / 1000 + 10);
  });
});
