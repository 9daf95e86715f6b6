import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { sha256 } from '../../../src/registry/manifest.ts';
import {
  appendParts,
  deleteParts,
  giveUpUploads,
  isPartList,
  type PartList,
  readAllParts,
  readParts,
  uploadTag,
  writeParts,
} from '../../../src/registry/parts.ts';
import { memoryRegistry, type MemoryRegistry } from './memoryregistry.ts';

const place = { repository: 'a', tag: uploadTag('1') };
const nothing = { parts: [], annotations: {} };

async function* chunks(...said: (string | Error)[]): AsyncGenerator<Buffer> {
  for (const one of said) {
    if (one instanceof Error) throw one;
    yield Buffer.from(one);
  }
}

const sizes = ({ parts }: PartList): number[] => parts.map(({ size }) => size);

describe('a file that comes in parts', () => {
  test('is known by its tag: how far it has come, and when', async () => {
    const registry = memoryRegistry();
    const before = Date.now();
    const written = await writeParts(registry, place, { parts: [], annotations: { name: 'x' } });
    expect(await readParts(registry, place)).toEqual(written);
    expect(written).toMatchObject({ parts: [], offset: 0 });
    expect(written.annotations['name']).toBe('x');
    expect(written.writtenAt).toBeGreaterThanOrEqual(before);
    expect(isPartList((await registry.manifest('a', place.tag)).manifest)).toBe(true);
    expect(isPartList({ schemaVersion: 2 })).toBe(false);
    expect(registry.calls.some((call) => call.startsWith('delete'))).toBe(false);
  });

  test('is written part by part, and read back whole', async () => {
    const registry = memoryRegistry();
    const list = await writeParts(registry, place, nothing);
    const content = chunks('0123', '4567', '89');
    const appended = await appendParts(registry, place, { list, content, partBytes: 5 });
    expect([sizes(appended), appended.offset]).toEqual([[8, 2], 10]);
    expect(appended.parts[0]?.digest).toBe(sha256(Buffer.from('01234567')));
    expect(await readParts(registry, place)).toEqual(appended);
    expect(await text(readAllParts(registry, 'a', appended.parts))).toBe('0123456789');
    // The lists before it went.
    expect([...registry.manifests.keys()]).toEqual([`a:${place.tag}`, `a@${appended.digest}`]);
  });

  test('that ends with a part has no empty one', async () => {
    const registry = memoryRegistry();
    const list = await writeParts(registry, place, nothing);
    const appended = await appendParts(registry, place, { list, content: chunks('01234'), partBytes: 5 });
    expect(sizes(appended)).toEqual([5]);
    expect(registry.calls.filter((call) => call === 'cancel a')).toHaveLength(1);
    expect(await appendParts(registry, place, { list: appended, content: chunks() })).toEqual(appended);
  });

  test('that breaks off keeps what came, and goes on from there', async () => {
    const registry = memoryRegistry();
    const list = await writeParts(registry, place, nothing);
    const content = chunks('0123', '45', new Error('cut off'));
    await expect(appendParts(registry, place, { list, content, partBytes: 4 })).rejects.toThrow('cut off');
    const kept = await readParts(registry, place);
    expect([sizes(kept), kept.offset]).toEqual([[4, 2], 6]);
    const whole = await appendParts(registry, place, { list: kept, content: chunks('6789') });
    expect(await text(readAllParts(registry, 'a', whole.parts))).toBe('0123456789');
  });

  test.each<[string, (list: PartList, registry: MemoryRegistry) => Promise<unknown>, string[]]>([
    [
      'somebody else has gone on with',
      (list, registry) => appendParts(registry, place, { list, content: chunks('0123456789') }),
      [place.tag],
    ],
    ['was taken over and forgotten', (_list, registry) => deleteParts(registry, place), []],
  ])('that %s is not written back by who is behind', async (_what, meanwhile, tags) => {
    const registry = memoryRegistry();
    const list = await writeParts(registry, place, nothing);
    async function* dead(): AsyncGenerator<Buffer> {
      yield Buffer.from('0123');
      await meanwhile(list, registry);
      throw new Error('the connection is gone');
    }
    const appended = appendParts(registry, place, { list, content: dead() });
    await expect(appended).rejects.toMatchObject({ reason: 'Conflict' });
    expect(await registry.tags('a')).toEqual(tags);
    for (const tag of tags) expect((await readParts(registry, { ...place, tag })).offset).toBe(10);
  });

  test('is not read where a part is another than its digest says', async () => {
    const registry = memoryRegistry();
    const list = await writeParts(registry, place, nothing);
    const { parts } = await appendParts(registry, place, { list, content: chunks('0123') });
    registry.blobs.set(parts[0]!.digest, Buffer.from('012x'));
    await expect(text(readAllParts(registry, 'a', parts))).rejects.toThrow(
      'a part of an upload to r.example.com/a does not match its digest',
    );
  });

  test('is forgotten once, and again without a word', async () => {
    const registry = memoryRegistry();
    await writeParts(registry, place, nothing);
    await deleteParts(registry, place);
    await expect(readParts(registry, place)).rejects.toMatchObject({ reason: 'NotFound' });
    await expect(deleteParts(registry, place)).resolves.toBeUndefined();
  });
});

describe('uploads that nobody goes on with', () => {
  test('are forgotten after their time; others, and what is no upload, stay', async () => {
    const registry = memoryRegistry();
    const old = await writeParts(registry, { ...place, tag: uploadTag('old') }, nothing);
    const { manifest } = await registry.manifest('a', uploadTag('old'));
    // Written by an earlier version, which noted no time.
    registry.put('a', uploadTag('undated'), { ...manifest, annotations: {} });
    registry.put('a', uploadTag('image'), { schemaVersion: 2, layers: [] });
    registry.put('a', 'latest', manifest);
    const before = old.writtenAt!;
    expect((await giveUpUploads(registry, 'a', before)).givenUp).toEqual([]);
    const { givenUp, going } = await giveUpUploads(registry, 'a', before + 1);
    expect(givenUp.map(({ digest }) => digest)).toEqual([old.digest]);
    expect(going.map(({ writtenAt }) => writtenAt)).toEqual([undefined]);
    expect(registry.calls.filter((call) => call.startsWith('delete'))).toEqual([`delete a@${old.digest}`]);
  });
});
