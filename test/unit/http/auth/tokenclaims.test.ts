import { describe, expect, test } from 'vitest';
import { readTokenClaims } from '../../../../src/http/auth/tokenclaims.ts';

const tokenOf = (payload: unknown) =>
  `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.c2lnbmF0dXJl`;

describe('the claims of a token', () => {
  test.each([
    [
      'of an account, with its end',
      tokenOf({ exp: 1_800_000_000, 'kubernetes.io': { serviceaccount: { name: 'ci', uid: 'u-1' } } }),
      { accountUid: 'u-1', expiresAt: 1_800_000_000_000 },
    ],
    [
      'of an account, from a Secret and without end',
      tokenOf({ 'kubernetes.io/serviceaccount/service-account.uid': 'u-2' }),
      { accountUid: 'u-2' },
    ],
    ['of a person', tokenOf({ sub: 'ada', exp: 1_800_000_000.5 }), { expiresAt: 1_800_000_000_500 }],
    [
      'that are of other types',
      tokenOf({ exp: 'soon', 'kubernetes.io': { serviceaccount: { uid: 7 } } }),
      {},
    ],
    ['of a token that never ends', `e30.${Buffer.from('{"exp":1e999}').toString('base64url')}.c2ln`, {}],
    ['that are no object', tokenOf(null), {}],
    ['that are not JSON', `e30.${Buffer.from('{').toString('base64url')}.c2ln`, {}],
    ['of two parts', 'e30.e30', {}],
    ['of no parts', 'a-static-token', {}],
  ])('%s', (_, token, claims) => {
    expect(readTokenClaims(token)).toEqual(claims);
  });
});
