import { expect, test } from 'vitest';
import { scrub, scrubBase64 } from '../../../src/registry/scrub.ts';

const login = { username: 'alice', password: 'p4ss/wörd' };

test.each([
  ['the password', `no: ${login.password}`],
  ['the password in base64', `no: ${Buffer.from(login.password).toString('base64')}`],
  ['the header', `no: Basic ${Buffer.from(`alice:${login.password}`).toString('base64')}`],
  ['the password of an address', `no: https://alice:${encodeURIComponent(login.password)}@x`],
])('takes %s out of a text', (_, text) => {
  const clean = scrub(text, login);
  expect(clean).toContain('***');
  expect(clean).not.toMatch(/p4ss|cDRzc/);
});

test('leaves other texts alone', () => {
  expect(scrub('registry r.example.com refused the login', login)).toBe(
    'registry r.example.com refused the login',
  );
});

test('an empty password is in no text', () => {
  expect(scrub('abc', { username: '', password: '' })).toBe('abc');
});

test('takes a secret in base64 out of a text, also where it was cut off', () => {
  const secret = Buffer.from('{"auths":{"registry.example.com":{"password":"p4ss"}}}').toString('base64');
  expect(scrubBase64(`refused: ${secret}`, secret)).toBe('refused: ***');
  expect(scrubBase64(`refused: ${secret.slice(8, 60)}…`, secret)).toBe('refused: ***…');
  expect(scrubBase64('refused: exceededquota', secret)).toBe('refused: exceededquota');
});
