import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { type ErrorReason, Svc3Error } from '../../../src/errors.ts';
import { sha256 } from '../../../src/registry/manifest.ts';
import {
  appendParts,
  deleteParts,
  deleteUpload,
  giveUpUploads,
  isPartList,
  type PartList,
  readAllParts,
  readParts,
  uploadTag,
  writeParts,
} from '../../../src/registry/parts.ts';
import { deleteVersions } from '../../../src/registry/publish.ts';
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
    // What was deleted since it was written is known here alone.
    expect({ ...(await readParts(registry, place)), before: [] }).toEqual(appended);
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

const digests = (registry: MemoryRegistry) =>
  [...registry.manifests.keys()].flatMap((key) => (key.includes('@') ? [key.split('@')[1]] : []));

/** A registry that does not delete the first times. */
function unwilling(times: number, reason: ErrorReason = 'BadGateway'): MemoryRegistry {
  const registry = memoryRegistry();
  let left = times;
  return {
    ...registry,
    async deleteManifest(repository, digest) {
      left -= 1;
      if (left >= 0) throw new Svc3Error(reason, 'not now');
      await registry.deleteManifest(repository, digest);
    },
  };
}

describe('the lists before one, of which the registry did not delete each at once,', () => {
  const append = async (registry: MemoryRegistry, content: string) => {
    const list = await readParts(registry, place).catch(() => writeParts(registry, place, nothing));
    return appendParts(registry, place, { list, content: chunks(...content.split('')), partBytes: 1 });
  };

  test.each([1, 2, 3])('go when it is written the next time, after %i failures', async (times) => {
    const registry = unwilling(times);
    const { digest, before } = await append(registry, '0123');
    expect([digests(registry), before]).toEqual([[digest], []]);
  });

  test('are known to whoever reads it, also where the process that wrote it died', async () => {
    const registry = unwilling(2);
    const list = await append(registry, '01');
    expect(digests(registry)).toHaveLength(3);
    expect((await readParts(registry, place)).before).toEqual(list.before);
    const { digest } = await append(registry, '2');
    expect(digests(registry)).toEqual([digest]);
  });

  test.each<[string, (registry: MemoryRegistry, list: PartList) => Promise<unknown>]>([
    ['forgotten', (registry) => deleteParts(registry, place)],
    ['given up', (registry) => giveUpUploads(registry, 'a', Infinity)],
    [
      'forgotten by its digest',
      (registry, { digest }) =>
        deleteUpload(registry, { repository: 'a', digest }, new AbortController().signal),
    ],
    ['deleted with its image', (registry) => deleteVersions(registry, 'a', undefined)],
  ])('go when it is %s', async (_what, end) => {
    const registry = unwilling(2);
    const list = await append(registry, '01');
    expect(digests(registry)).toHaveLength(3);
    await end(registry, list);
    expect([...registry.manifests]).toEqual([]);
  });

  test('keep it where they cannot be deleted now, and it is found again', async () => {
    const registry = unwilling(3);
    await append(registry, '01');
    await expect(deleteParts(registry, place)).rejects.toThrow('not now');
    await deleteParts(registry, place);
    expect([...registry.manifests]).toEqual([]);
  });

  test('keep it no longer where the registry refuses that', async () => {
    const registry = unwilling(4, 'MethodNotAllowed');
    await append(registry, '01');
    await deleteParts(registry, place);
    await expect(readParts(registry, place)).rejects.toMatchObject({ reason: 'NotFound' });
  });

  test('are remembered only so far where the registry deletes nothing, and cost one request each time', async () => {
    const registry = unwilling(Infinity, 'MethodNotAllowed');
    const { before } = await append(registry, 'x'.repeat(100));
    expect([before.length, (await readParts(registry, place)).before.length]).toEqual([64, 64]);
    await expect(deleteParts(registry, place)).resolves.toBeUndefined();
  });

  test('are no other manifests, whatever an annotation says', async () => {
    const registry = memoryRegistry();
    const annotations = { 'svc3.dev/before': '../../b/manifests/latest,sha256:12' };
    const written = await writeParts(registry, place, { parts: [], annotations });
    expect([written.before, written.annotations]).toEqual([
      [],
      { 'svc3.dev/written-at': expect.any(String) },
    ]);
    const { manifest } = await registry.manifest('a', place.tag);
    registry.put('a', place.tag, { ...manifest, annotations });
    expect((await readParts(registry, place)).before).toEqual([]);
  });
});

test('a list that somebody else has written over at the same time goes when that is noticed', async () => {
  const registry = memoryRegistry();
  const list = await writeParts(registry, place, nothing);
  async function* twoParts(): AsyncGenerator<Buffer> {
    yield Buffer.from('0');
    // Both have seen that the list is current, and the other writes last.
    await writeParts(registry, place, { ...list, annotations: { by: 'the other' } });
    yield Buffer.from('1');
  }
  const appended = appendParts(registry, place, { list, content: twoParts(), partBytes: 1 });
  await expect(appended).rejects.toMatchObject({ reason: 'Conflict' });
  expect(digests(registry)).toEqual([(await readParts(registry, place)).digest]);
});

test('a list that the registry does not show for a moment stays: nobody else has written another', async () => {
  const registry = memoryRegistry();
  const list = await writeParts(registry, place, nothing);
  let looks = 0;
  const digestOf: MemoryRegistry['digestOf'] = async (...asked) => {
    looks += 1;
    return looks === 2 ? undefined : registry.digestOf(...asked);
  };
  const content = chunks('0', '1');
  const appended = appendParts({ ...registry, digestOf }, place, { list, content, partBytes: 1 });
  await expect(appended).rejects.toMatchObject({ reason: 'Conflict' });
  expect(sizes(await readParts(registry, place))).toEqual([1]);
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
