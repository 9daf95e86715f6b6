import { randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { createSealer } from '../../../../src/http/auth/seals.ts';

const key = randomBytes(32);
const claims = { token: 'secret.token', exp: 5 };

describe('a sealed text', () => {
  test('is opened by every replica with the key, and shows nothing', () => {
    const sealed = createSealer(key).seal('session', claims);
    expect(sealed).toMatch(/^[\w-]+$/);
    expect(Buffer.from(sealed, 'base64url').includes('secret')).toBe(false);
    expect(createSealer(key).open('session', sealed)).toEqual(claims);
  });

  test('is another one each time', () => {
    const sealer = createSealer(key);
    expect(sealer.seal('session', claims)).not.toBe(sealer.seal('session', claims));
  });

  test('is no larger than the token where that is base64', () => {
    const token = randomBytes(2000).toString('base64url');
    expect(createSealer(key).seal('session', { token }).length).toBeLessThan(token.length * 1.05);
  });

  test('is nothing for another purpose, with another key, or when a bit of it differs', () => {
    const sealer = createSealer(key);
    const sealed = sealer.seal('code', claims);
    const bytes = Buffer.from(sealed, 'base64url');
    expect(sealer.open('session', sealed)).toBeUndefined();
    expect(createSealer(randomBytes(32)).open('code', sealed)).toBeUndefined();
    for (const at of [0, 12, bytes.length - 1]) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(sealer.open('code', changed.toString('base64url'))).toBeUndefined();
    }
    expect(sealer.open('code', bytes.subarray(0, -1).toString('base64url'))).toBeUndefined();
    expect(sealer.open('code', '')).toBeUndefined();
  });
});

test('what replicas of another version have sealed is opened', () => {
  const sealer = createSealer(new Uint8Array(32).fill(7));
  const sealed = 'cQ0OHWljTjbN2GuNeiy0qSPWEB6YGmrDTWvSyciByvwC8uU82VtJ';
  expect(sealer.open('session', sealed)).toEqual({ exp: 5 });
  expect(sealer.keyId).toBe('f8e81bd4');
});

test('what would be larger than 64 KiB is not opened, however small it came', () => {
  const sealer = createSealer(key);
  const around = JSON.stringify({ text: '' }).length;
  const sealed = (bytes: number): string => sealer.seal('session', { text: 'a'.repeat(bytes - around) });
  expect(sealed(65_537).length).toBeLessThan(500);
  expect(sealer.open('session', sealed(65_536))).toBeDefined();
  expect(sealer.open('session', sealed(65_537))).toBeUndefined();
});

test('the id of a key is the same on every replica, and of another key another', () => {
  const { keyId } = createSealer(key);
  expect(keyId).toMatch(/^[0-9a-f]{8}$/);
  expect([createSealer(key).keyId, createSealer(randomBytes(32)).keyId === keyId]).toEqual([keyId, false]);
});
