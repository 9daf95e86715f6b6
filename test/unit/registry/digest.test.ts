import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import { digesting, verifyDigest } from '../../../src/registry/digest.ts';
import { parseManifest, sha256, sizeOf } from '../../../src/registry/manifest.ts';

const digest = sha256(Buffer.from('hello'));
const through = (said: string[], transform: NodeJS.ReadWriteStream): Promise<string> =>
  text(Readable.from(said.map((part) => Buffer.from(part))).pipe(transform));

describe('bytes and their digest', () => {
  test('pass where they are those', async () => {
    expect(await through(['he', 'llo'], verifyDigest(digest, 'a layer'))).toBe('hello');
    expect(await through(['he', 'llo'], verifyDigest(digest, 'a layer', 5))).toBe('hello');
  });

  test('fail at their end where they are others', async () => {
    await expect(through(['hellO'], verifyDigest(digest, 'a layer'))).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `a layer does not match its digest ${digest}`,
    });
  });

  test('fail at once where they are more than there should be', async () => {
    await expect(through(['hel', 'lo'], verifyDigest(digest, 'a layer', 4))).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'a layer is larger than 4 bytes',
    });
  });

  test('are counted and digested on their way', async () => {
    const meter = digesting();
    expect(await through(['he', 'llo'], meter)).toBe('hello');
    expect([meter.size(), meter.digest(), meter.digest()]).toEqual([5, digest, digest]);
  });
});

describe('a manifest', () => {
  const layer = { mediaType: 'a/b', digest, size: 5 };
  const parse = (value: unknown) =>
    parseManifest(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)), 'r.example.com/a');

  test('is read, what is unknown or null is left out', () => {
    expect(
      parse({ schemaVersion: 2, mediaType: null, layers: [{ ...layer, urls: [] }], config: null, odd: 1 }),
    ).toEqual({ schemaVersion: 2, layers: [layer] });
  });

  test.each<[string, unknown, string]>([
    ['of another version', { schemaVersion: 1 }, 'schemaVersion'],
    ['that is none', 5, 'has a manifest that is not one: Invalid input'],
    ['of a negative size', { schemaVersion: 2, layers: [{ ...layer, size: -1 }] }, 'layers.0.size'],
    ['of half a byte', { schemaVersion: 2, layers: [{ ...layer, size: 0.5 }] }, 'layers.0.size'],
    ['that names a path', { schemaVersion: 2, layers: [{ ...layer, digest: '../x' }] }, 'is not a digest'],
    [
      'of annotations that are none',
      { schemaVersion: 2, annotations: { a: 1 } },
      'annotations.a: is not a text',
    ],
    ['of members that are none', { schemaVersion: 2, manifests: 'many' }, 'manifests'],
    [
      'that describes something in a wrong way',
      { schemaVersion: 2, layers: [layer, { ...layer, annotations: { b: [] } }] },
      'layers.1.annotations.b: is not a text',
    ],
  ])('%s is refused and the field named', (_what, value, message) => {
    expect(() => parse(value)).toThrow(message);
    expect(() => parse(value)).toThrow(expect.objectContaining({ reason: 'Invalid' }));
  });

  test.each<[string, Record<string, unknown>]>([
    ['is long', { ['x'.repeat(1_000_000)]: 'a' }],
    ['has a long name and is wrong', { ['x'.repeat(1_000)]: 1 }],
  ])('whose annotation %s is refused with the beginning of its name', (_what, annotations) => {
    const beginning =
      /^r\.example\.com\/a has a manifest that is not one: annotations\.x{280,300}…: is (not a text|a name of more than 1024 characters)$/;
    expect(() => parse({ schemaVersion: 2, annotations })).toThrow(
      expect.objectContaining({ reason: 'Invalid', message: expect.stringMatching(beginning) }),
    );
  });

  test.each<[string, Record<string, unknown>]>([
    ['annotations', { annotations: Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`k${i}`, i])) }],
    ['layers', { layers: Array.from({ length: 50 }, () => ({})) }],
  ])('with many wrong %s is read no further than the first of them', (_what, fields) => {
    let count = 0;
    z.config({ customError: () => void (count += 1) });
    try {
      expect(() => parse({ schemaVersion: 2, ...fields })).toThrow('has a manifest that is not one');
    } finally {
      z.config({ customError: undefined });
    }
    expect(count).toBeLessThan(10);
  });

  test('that is no JSON is the fault of the registry', () => {
    expect(() => parse('<html>')).toThrow(
      expect.objectContaining({
        reason: 'BadGateway',
        message: expect.stringContaining('r.example.com/a sent a manifest that is not JSON'),
      }),
    );
  });

  test('has the bytes of all its layers, as long as they can be counted', () => {
    expect(sizeOf([layer, { ...layer, size: 7 }], 'it')).toBe(12);
    expect(sizeOf([], 'it')).toBe(0);
    const most = { ...layer, size: Number.MAX_SAFE_INTEGER };
    expect(sizeOf([most], 'it')).toBe(Number.MAX_SAFE_INTEGER);
    expect(() => sizeOf([most, layer], 'it')).toThrow('the layers of it claim to have');
  });
});
