import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { blobOf, readBlob, verified } from '../../../src/registry/blob.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import { memoryRegistry } from './memoryregistry.ts';

const bytes = Buffer.from('0123456789');
const blob = { digest: sha256(bytes), size: bytes.length };

function registryWith(digest = blob.digest): ReturnType<typeof memoryRegistry> {
  const registry = memoryRegistry();
  registry.blobs.set(digest, bytes);
  return registry;
}

describe('the bytes of a blob', () => {
  test.each([
    [{}, '0123456789', '0-'],
    [{ start: 3 }, '3456789', '3-'],
    [{ start: 3, end: 5 }, '34', '3-4'],
    [{ end: 10 }, '0123456789', '0-'],
  ])('of %o are read, and no more is asked for', async (range, expected, asked) => {
    const registry = registryWith();
    expect(await text(blobOf(registry, 'a', blob, range))).toBe(expected);
    expect(registry.calls).toEqual([`blob ${blob.digest} ${asked}`]);
  });

  test('are verified at their end', async () => {
    const read = (digest: string) =>
      text(Readable.from(verified(Readable.from([bytes]), { digest, size: 10, what: 'a part' })));
    expect(await read(blob.digest)).toBe('0123456789');
    await expect(read(sha256(Buffer.from('x')))).rejects.toThrow('a part does not match its digest');
  });

  test('fail with what breaks them off', async () => {
    const source = new Readable({ read: () => undefined });
    const read = text(Readable.from(verified(source, { ...blob, what: 'a part' })));
    setImmediate(() => source.destroy(new Error('cut off')));
    await expect(read).rejects.toThrow('cut off');
  });
});

describe('a small blob', () => {
  const limits = { limitBytes: 10, what: 'the configuration' };

  test('is read whole', async () => {
    expect(String(await readBlob(registryWith(), 'a', blob, limits))).toBe('0123456789');
  });

  test('that is declared larger than wanted is not asked for', async () => {
    const registry = registryWith();
    await expect(readBlob(registry, 'a', blob, { ...limits, limitBytes: 9 })).rejects.toMatchObject({
      reason: 'Invalid',
      message: 'the configuration is larger than 9 bytes',
    });
    expect(registry.calls).toEqual([]);
  });

  test.each([
    ['larger', { ...blob, size: 9 }, 'is larger than the 9 bytes it is declared with'],
    ['smaller', { ...blob, size: 11 }, 'does not match its size and digest'],
    ['another', { size: 10, digest: sha256(Buffer.from('x')) }, 'does not match its size and digest'],
  ])('that is %s than declared is not believed', async (_what, declared, message) => {
    const read = readBlob(registryWith(declared.digest), 'a', declared, { ...limits, limitBytes: 20 });
    await expect(read).rejects.toMatchObject({
      reason: 'BadGateway',
      message: expect.stringContaining(message),
    });
  });
});
