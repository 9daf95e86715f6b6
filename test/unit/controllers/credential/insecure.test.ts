import { describe, expect, test } from 'vitest';
import {
  insecureServers,
  isAllowedInsecure,
  serversKey,
} from '../../../../src/controllers/credential/insecure.ts';
import { parseServer } from '../../../../src/registry/identity.ts';
import { aCredential } from './builders.ts';

const all = { enabled: true, allowed: ['*'] };
const isAllowed = (server: string, ...allowed: string[]): boolean =>
  isAllowedInsecure(parseServer(server), { enabled: true, allowed });

test('nodes of other versions find the servers under the same key', () => {
  expect(serversKey).toBe('servers');
});

describe('nodes are to trust', () => {
  const plain = 'http://a.example.com:5000';

  test.each([
    ['a registry whose credential allows it', [aCredential(plain)], [plain]],
    ['no registry whose credential does not', [aCredential('https://a.example.com')], []],
    [
      'an https registry whose credential allows it',
      [aCredential('https://a.example.com', { spec: { allowInsecure: true } })],
      ['https://a.example.com'],
    ],
    [
      'no registry whose credential is being deleted',
      [aCredential(plain, { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })],
      [],
    ],
    [
      'each once, sorted',
      ['z', 'b', 'z'].map((host) => aCredential(`http://${host}`)),
      ['http://b', 'http://z'],
    ],
  ])('%s', (_sentence, credentials, servers) => {
    expect(insecureServers(credentials, all)).toEqual(servers);
  });

  test('only what the chart allows, and nothing where it is off', () => {
    const credentials = [aCredential('http://a'), aCredential('http://b')];
    expect(insecureServers(credentials, { enabled: true, allowed: ['b'] })).toEqual(['http://b']);
    expect(insecureServers(credentials, { enabled: false, allowed: ['*'] })).toEqual([]);
  });
});

test.each([
  ['http://a.example.com:5000', 'a.example.com', true],
  ['http://a.example.com:5000', 'a.example.com:5000', true],
  ['http://a.example.com:5000', 'a.example.com:500', false],
  ['http://a.example.com:5000', 'A.Example.COM', true],
  ['http://a.example.com:5000', '*.example.com', true],
  ['http://a.example.com:5000', '*.example.com:*', true],
  ['http://a.example.com:5000', 'a.*', true],
  ['http://a.example.com:5000', '*', true],
  // A dot is a dot, and the whole name is meant.
  ['http://axexample.com', 'a.example.com', false],
  ['http://xexample.com', '.example.com', false],
  ['http://a.example.com.evil.org', 'a.example.com', false],
  ['http://evil-a.example.com', 'a.example.com', false],
  // A star is not for the port, or `10.*` would be for host and port alike.
  ['http://a:5000', 'a*0', false],
  ['http://[2001:db8::1]', '*', true],
  ['http://[2001:db8::1]', '[2001:db8::1]', true],
  ['http://[2001:db8::1]:5000', '[2001:0db8:0000:0000:0000:0000:0000:0001]:5000', true],
])('%s is allowed by %s: %s', (server, allowed, expected) => {
  expect(isAllowed(server, allowed)).toBe(expected);
  expect(isAllowed(server, 'nobody.example.com', allowed)).toBe(expected);
});
