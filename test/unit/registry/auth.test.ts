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

  test('is read no further than any honest one is long', () => {
    const realm = 'realm="https://a"';
    expect(parseChallenge(`Bearer ${'a'.repeat(1_000)},${realm}`)?.parameters).toEqual({
      realm: 'https://a',
    });
    expect(parseChallenge(`Bearer ${'a'.repeat(3_000)},${realm}`)?.parameters).toEqual({});
  });
});
