import { describe, expect, test } from 'vitest';
import { parseChallenge } from '../../../src/registry/auth.ts';

describe('a challenge', () => {
  test('is read with its parameters, quoted or not', () => {
    expect(parseChallenge('Negotiate, Bearer realm="https://a/t",service=s,scope="x:y \\"z\\""')).toEqual({
      scheme: 'bearer',
      parameters: { realm: 'https://a/t', service: 's', scope: 'x:y "z"' },
    });
    expect(parseChallenge('Basic realm="r"')?.scheme).toBe('basic');
    expect(parseChallenge('Negotiate')).toBeUndefined();
    expect(parseChallenge(undefined)).toBeUndefined();
  });

  test.each<[header: string, scheme: string, parameters: object]>([
    [
      'Bearer realm="https://a/t",service="s", Basic realm="r"',
      'bearer',
      { realm: 'https://a/t', service: 's' },
    ],
    ['Basic realm="r", Bearer realm="https://a/t",service="s"', 'basic', { realm: 'r' }],
    ['Digest realm="d", nonce="n", Bearer realm="https://a/t"', 'bearer', { realm: 'https://a/t' }],
    ['Bearer realm="https://a/t", Negotiate, Digest realm="d"', 'bearer', { realm: 'https://a/t' }],
    ['Negotiate YWJj==, BEARER realm="https://a/t"', 'bearer', { realm: 'https://a/t' }],
    [
      'Bearer realm="https://a/t?x=1, Basic realm=2",service=s',
      'bearer',
      { realm: 'https://a/t?x=1, Basic realm=2', service: 's' },
    ],
    [
      'Digest realm="x, Basic realm=y", Bearer realm = "https://a/t" , service = s',
      'bearer',
      { realm: 'https://a/t', service: 's' },
    ],
    ['Bearer realm="https://a/t" service="s"', 'bearer', { realm: 'https://a/t', service: 's' }],
    ['Basic', 'basic', {}],
  ])('of several has its own parameters: %s', (header, scheme, parameters) => {
    expect(parseChallenge(header)).toEqual({ scheme, parameters });
  });

  test('is read no further than any honest one is long', () => {
    const realm = 'realm="https://a"';
    expect(parseChallenge(`Bearer ${'a'.repeat(1_000)},${realm}`)?.parameters).toEqual({
      realm: 'https://a',
    });
    expect(parseChallenge(`Bearer ${'a'.repeat(3_000)},${realm}`)?.parameters).toEqual({});
  });
});
