import { generateKeyPairSync, sign } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  controlActions,
  createControlKey,
  encodePublicKey,
  parseControlKeys,
  readPrivateKey,
  signControlToken,
  TokenError,
  tokenLifetimeSeconds,
  verifyControlToken,
  type ControlClaims,
  type ExpectedClaims,
} from '../../../src/runnerapi/token.ts';

const now = 1_800_000_000;
const installation = createControlKey();
const keys = parseControlKeys(installation.publicKey);
const claims: ControlClaims = {
  vmUid: 'vm-1',
  action: 'power',
  fingerprint: 'aa',
  exp: now + tokenLifetimeSeconds,
};
const expected: ExpectedClaims = { vmUid: 'vm-1', action: 'power', fingerprint: 'aa', nowSeconds: now };

describe('a control token', () => {
  test('is accepted by the runner it was made for', () => {
    expect(verifyControlToken(signControlToken(claims, installation.privateKey), keys, expected)).toEqual(
      claims,
    );
  });

  test.each<[string, Partial<ExpectedClaims>, string]>([
    ['another VM', { vmUid: 'vm-2' }, 'meant for another VM'],
    ['another action', { action: 'tunnel' }, 'meant for another action than tunnel'],
    ['another certificate', { fingerprint: 'bb' }, 'made for another certificate'],
    [
      'a clock that is five minutes ahead of the caller’s, to the second',
      { nowSeconds: now + 300 },
      "expired: its caller's clock is 300 s behind this node's",
    ],
    [
      'a clock that is far ahead of the caller’s',
      { nowSeconds: now + 3600.4 },
      "expired: its caller's clock is 3600 s behind this node's",
    ],
    [
      'a clock that is far behind the caller’s',
      { nowSeconds: now - 3600 },
      "valid for too long: its caller's clock is 3600 s ahead of this node's",
    ],
    [
      'more than five minutes to live',
      { nowSeconds: claims.exp - 301 },
      "valid for too long: its caller's clock is 241 s ahead of this node's",
    ],
  ])('is refused for %s', (_sentence, other, message) => {
    const token = signControlToken(claims, installation.privateKey);
    expect(() => verifyControlToken(token, keys, { ...expected, ...other })).toThrow(message);
  });

  test.each([
    ['as far ahead of the caller’s as a token takes', claims.exp + 239],
    ['a minute ahead', now + 60],
    ['the same', now],
    ['as far behind the caller’s as a token takes', claims.exp - 300],
  ])('is accepted by a node whose clock is %s', (_sentence, nowSeconds) => {
    const token = signControlToken(claims, installation.privateKey);
    expect(verifyControlToken(token, keys, { ...expected, nowSeconds })).toEqual(claims);
  });

  test('is good for a minute: longer than a call, shorter than anybody needs to store it up', () => {
    expect(tokenLifetimeSeconds).toBe(60);
  });

  test('may say that it is for one use', () => {
    const once = { ...claims, once: 'x' };
    expect(verifyControlToken(signControlToken(once, installation.privateKey), keys, expected)).toEqual(once);
  });

  test('is for one of the actions that runners of every version know by these names', () => {
    expect(controlActions).toEqual([
      'state',
      'power',
      'claim',
      'resize',
      'eject',
      'ports',
      'export',
      'vnc',
      'serial',
      'tunnel',
      'usage',
    ]);
  });

  test.each(controlActions)('is for %s where it says so, and for nothing else', (action) => {
    const token = signControlToken({ ...claims, action }, installation.privateKey);
    for (const asked of controlActions) {
      const verify = () => verifyControlToken(token, keys, { ...expected, action: asked });
      if (asked === action) expect(verify()).toMatchObject({ action });
      else expect(verify).toThrow('meant for another action');
    }
  });

  test('whose claims are no JSON is refused although signed', () => {
    const payload = `svc3c1.${Buffer.from('{').toString('base64url')}`;
    const signature = sign(null, Buffer.from(payload), installation.privateKey).toString('base64url');
    const verify = () => verifyControlToken(`${payload}.${signature}`, keys, expected);
    expect(verify).toThrow(TokenError);
    expect(verify).toThrow('claims are not JSON');
  });

  test('is refused when signed by another key', () => {
    const token = signControlToken(claims, createControlKey().privateKey);
    expect(() => verifyControlToken(token, keys, expected)).toThrow('signed by no known key');
  });

  test('is accepted under either key during a rotation', () => {
    const next = createControlKey();
    const both = parseControlKeys(`${installation.publicKey}\n${next.publicKey}`);
    for (const key of [installation, next])
      expect(verifyControlToken(signControlToken(claims, key.privateKey), both, expected)).toEqual(claims);
  });

  test('is refused when its claims are changed after signing', () => {
    const [head, , signature] = signControlToken(claims, installation.privateKey).split('.');
    const body = Buffer.from(JSON.stringify({ ...claims, vmUid: 'vm-2' })).toString('base64url');
    expect(() => verifyControlToken([head, body, signature].join('.'), keys, expected)).toThrow(
      'signed by no known key',
    );
  });

  test.each([
    ['empty text', ''],
    ['two parts', 'svc3c1.abc'],
    ['four parts', 'svc3c1.a.b.c'],
    ['another prefix', signControlToken(claims, installation.privateKey).replace('svc3c1', 'svc3c9')],
    ['a JSON web token', 'eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.'],
  ])('is refused when it is %s', (_sentence, token) => {
    expect(() => verifyControlToken(token, keys, expected)).toThrow('not a control token');
  });

  test.each([
    ['without an action', { ...claims, action: undefined }],
    ['with an unknown action', { ...claims, action: 'root' }],
    ['with an expiry that is no number', { ...claims, exp: 'never' }],
    ['that are null', null],
    ['that are a word', 'power'],
    ['without a VM', { ...claims, vmUid: undefined }],
    ['with a certificate that is no text', { ...claims, fingerprint: 5 }],
    ['with a use that is no text', { ...claims, once: 5 }],
  ])('with claims %s is refused although signed', (_sentence, odd) => {
    const token = signControlToken(odd as ControlClaims, installation.privateKey);
    expect(() => verifyControlToken(token, keys, expected)).toThrow('claims are incomplete');
  });

  test('with no key at all is refused', () => {
    const token = signControlToken(claims, installation.privateKey);
    expect(() => verifyControlToken(token, [], expected)).toThrow('signed by no known key');
  });
});

describe('control keys', () => {
  test('are written the same from the private and the public half', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    expect(encodePublicKey(privateKey)).toBe(encodePublicKey(publicKey));
  });

  test('leave out words that are no keys', () => {
    expect(parseControlKeys(`# comment ${installation.publicKey}, abc`)).toHaveLength(1);
    expect(parseControlKeys('')).toHaveLength(0);
  });

  test('are 43 characters each, between commas or white space', () => {
    const other = createControlKey().publicKey;
    for (const between of [',', ', ', '\n', ' \t '])
      expect(parseControlKeys(`${installation.publicKey}${between}${other}`)).toHaveLength(2);
    expect(parseControlKeys(`${installation.publicKey}${other}`)).toHaveLength(0);
    expect(parseControlKeys(installation.publicKey.slice(1))).toHaveLength(0);
    expect(parseControlKeys(`${installation.publicKey}x`)).toHaveLength(0);
  });

  test('survive a round trip through PEM', () => {
    const pem = installation.privateKey.export({ type: 'pkcs8', format: 'pem' });
    expect(encodePublicKey(readPrivateKey(pem))).toBe(installation.publicKey);
  });

  test('of a kind without a point are refused', () => {
    const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 });
    expect(() => encodePublicKey(publicKey)).toThrow('not an Ed25519 key');
  });

  test('of another kind are refused', () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' });
    expect(() => readPrivateKey(pem)).toThrow('not an Ed25519 key');
  });
});
