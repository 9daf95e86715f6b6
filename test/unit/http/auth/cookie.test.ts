import { describe, expect, test } from 'vitest';
import { consoleCookieName, cookieFor, cookieValue, isSameOrigin } from '../../../../src/http/auth/cookie.ts';

describe('the cookie of the console', () => {
  test('comes back as it was given, among others', () => {
    const cookie =
      cookieFor(consoleCookieName, 'a.b-c_d', '/api/v1/namespaces/n/vms/v/console/stream', 60) ?? '';
    expect(cookie).toMatch(/; Secure; HttpOnly; SameSite=Strict$/);
    expect(cookie).toContain('; Path=/api/v1/namespaces/n/vms/v/console/stream;');
    expect(cookieValue(`x=1; ${cookie.split(';', 1)[0]}; y=2`, consoleCookieName)).toBe('a.b-c_d');
  });

  test('is left out where browsers would drop it', () => {
    expect(cookieFor('name', 'a'.repeat(4000), '/', 60)).toBeUndefined();
    expect(cookieFor('name', 'a'.repeat(3897), '/', 60)).toBeUndefined();
    expect(cookieFor('name', 'a'.repeat(3896), '/', 60)).toContain('; Max-Age=60; ');
  });

  test.each([[undefined], [''], ['other=1'], ['__Secure-svc3-console-2=1']])(
    'is not in the header %j',
    (header) => {
      expect(cookieValue(header, consoleCookieName)).toBeUndefined();
    },
  );
});

test.each([
  ['the page that this server gave', 'https://svc3.example.com:8443', 'svc3.example.com:8443', true],
  ['a page of another host', 'https://evil.example.com', 'svc3.example.com:8443', false],
  ['a page of another port', 'https://svc3.example.com', 'svc3.example.com:8443', false],
  ['a page that came without TLS', 'http://svc3.example.com', 'svc3.example.com', false],
  ['the page, behind a proxy that writes another host', 'https://vms.example.com', '10.0.0.1:8443', true],
  ['a page without an origin', 'null', 'svc3.example.com:8443', false],
  ['a request without a host', 'https://svc3.example.com', undefined, false],
  ['no browser', undefined, 'svc3.example.com:8443', false],
])('%s: same origin %s', (_, origin, host, expected) => {
  expect(isSameOrigin({ origin, host }, 'vms.example.com')).toBe(expected);
  expect(isSameOrigin({ origin, host }, '')).toBe(expected && origin !== 'https://vms.example.com');
});
