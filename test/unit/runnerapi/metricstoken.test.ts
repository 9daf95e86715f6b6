import { describe, expect, test } from 'vitest';
import {
  createMetricsTokenVerifier,
  signMetricsToken,
  verifyMetricsToken,
} from '../../../src/runnerapi/metricstoken.ts';
import {
  createControlKey,
  parseControlKeys,
  signControlToken,
  verifyControlToken,
} from '../../../src/runnerapi/token.ts';

const { privateKey, publicKey } = createControlKey();
const keys = parseControlKeys(publicKey);
const token = signMetricsToken('team', privateKey);

describe('a token for metrics', () => {
  test('is good for its namespace, and always the same', () => {
    expect(token).toMatch(/^svc3m1\.team\.[\w-]{86}$/);
    expect(() => verifyMetricsToken(token, keys, 'team')).not.toThrow();
    expect(signMetricsToken('team', privateKey)).toBe(token);
  });

  test('is good while its key is one of two', () => {
    const other = createControlKey();
    const both = parseControlKeys(`${other.publicKey},${publicKey}`);
    expect(() => verifyMetricsToken(token, both, 'team')).not.toThrow();
    expect(() => verifyMetricsToken(token, parseControlKeys(other.publicKey), 'team')).toThrow(
      'no known key',
    );
  });

  test.each([
    ['of another namespace', token, 'not a token for the metrics of this namespace', 'other'],
    ['whose namespace was replaced', token.replace('team', 'other'), 'signed by no known key', 'other'],
    ['without a signature', 'svc3m1.team.', 'signed by no known key', 'team'],
    ['that is empty', '', 'not a token for the metrics of this namespace', 'team'],
    ['without a part', 'svc3m1', 'not a token for the metrics of this namespace', 'team'],
  ])('%s is refused', (_what, given, message, namespace) => {
    expect(() => verifyMetricsToken(given, keys, namespace)).toThrow(message);
  });

  test('that was good is good while the keys are the same, and verified again with others', () => {
    const verify = createMetricsTokenVerifier('team');
    const mine = [...keys];
    verify(token, mine);
    // What takes no keys any more takes a token that it remembers, and no other.
    mine.length = 0;
    expect(() => verify(token, mine)).not.toThrow();
    expect(() => verify(`${token.slice(0, -1)}_`, mine)).toThrow('signed by no known key');
    expect(() => verify(token, [])).toThrow('signed by no known key');
    expect(() => verify(token, keys)).not.toThrow();
  });

  test('is no control token, and a control token none for metrics', () => {
    const expected = { vmUid: 'u', action: 'state', fingerprint: 'f', nowSeconds: 0 } as const;
    expect(() => verifyControlToken(token, keys, expected)).toThrow('not a control token');
    const control = signControlToken({ vmUid: 'u', action: 'state', fingerprint: 'f', exp: 60 }, privateKey);
    expect(() => verifyMetricsToken(control, keys, 'team')).toThrow('not a token for the metrics');
  });
});
