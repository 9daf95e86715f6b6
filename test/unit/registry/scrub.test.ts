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

const forms = (password: string): string[] => [
  password,
  Buffer.from(password).toString('base64'),
  Buffer.from(`alice:${password}`).toString('base64'),
  encodeURIComponent(password),
  JSON.stringify(password).slice(1, -1),
];

test.each(['abc', 'p4ss', 'secret', 'hunter2!', 'a"b', 'päss wörd', 'correct horse battery'])(
  'takes the password %s out of a text in every form, however short',
  (password) => {
    for (const form of forms(password))
      expect(scrub(`no: ${form}.`, { username: 'alice', password })).toBe('no: ***.');
  },
);

test('takes the longest form first: no part of another is left', () => {
  // The password stands in its own header.
  const login = { username: 'YWxpY2U6', password: 'WVd4' };
  const header = Buffer.from(`${login.username}:${login.password}`).toString('base64');
  expect(header).toContain(login.password);
  expect(scrub(`no: ${header}`, login)).toBe('no: ***');
  expect(scrub('no: "a%20b"', { username: 'alice', password: 'a%20b' })).toBe('no: "***"');
});

test('takes every occurrence out', () => {
  expect(scrub('p4ss p4ss', { username: 'alice', password: 'p4ss' })).toBe('*** ***');
});

test('a password of two characters would tear words apart', () => {
  expect(scrub('an answer', { username: 'alice', password: 'an' })).toBe('an answer');
});
