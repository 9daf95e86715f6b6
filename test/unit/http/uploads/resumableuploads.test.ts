import { Readable } from 'node:stream';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { Svc3Error, type ErrorReason } from '../../../../src/errors.ts';
import { createResumableUploads } from '../../../../src/http/uploads/resumableuploads.ts';
import { UploadTurns } from '../../../../src/http/uploads/turns.ts';
import type { ResumableUploads } from '../../../../src/http/call/services.ts';
import type { UploadTargets } from '../../../../src/usecases/uploadtarget.ts';
import { memoryRegistry, type MemoryRegistry } from '../../registry/memoryregistry.ts';

const target = { kind: 'Image', namespace: 'team', name: 'debian' } as const;
const repository = 'svc3/team/debian';
/** The largest file that is taken. */
const maxBytes = 1000;
const look = vi.fn<UploadTargets['look']>();
const handOver = vi.fn<UploadTargets['handOver']>();
const takenBy = vi.fn<UploadTargets['takenBy']>();
let registry: MemoryRegistry;
let uploads: ResumableUploads;

beforeEach(() => {
  for (const mock of [look, handOver, takenBy]) mock.mockReset();
  look.mockResolvedValue(undefined);
  handOver.mockResolvedValue({ metadata: { name: 'debian' } } as never);
  takenBy.mockResolvedValue(undefined);
  registry = memoryRegistry();
  uploads = at('https://store.example.com');
});

function at(url: string, turns?: UploadTurns): ResumableUploads {
  const registries = { open: async () => registry } as never;
  return createResumableUploads(
    { look, handOver, takenBy },
    registries,
    { url, prefix: 'svc3' },
    { turns: turns ?? new UploadTurns(), maxBytes },
  );
}

const begin = (more: Partial<Parameters<ResumableUploads['begin']>[1]> = {}) =>
  uploads.begin(target, { size: undefined, description: undefined, ...more });

const sender = { identity: 'me', signal: new AbortController().signal };

function append(
  id: string,
  offset: number,
  text: string,
  more: { isLast?: boolean; isWhole?: boolean; isMeasured?: boolean } = {},
) {
  const { isLast = false, isWhole = true, isMeasured = true } = more;
  const length = isMeasured ? text.length : undefined;
  const content = (async function* () {
    if (text !== '') yield Buffer.from(text);
  })();
  const bytes = { offset, content, isLast, length, isWhole: () => isWhole, ...sender };
  return uploads.append(target, id, bytes);
}

const isThere = (id: string) => registry.manifests.has(`${repository}:upload-${id}`);
const conflict = (message: string) => ({ reason: 'Conflict', message: expect.stringContaining(message) });

describe('an upload', () => {
  test('is as far as its bytes have come, whoever asks', async () => {
    const { id } = await begin({ size: 6 });
    expect(await append(id, 0, 'abc')).toEqual({ id, offset: 3, isComplete: false, size: 6 });
    uploads = at('https://store.example.com');
    expect(await uploads.state(target, id)).toEqual({ id, offset: 3, isComplete: false, size: 6 });
  });

  test('that is whole becomes an image, with what was said of it when it began', async () => {
    look.mockResolvedValue('uid-1');
    const { id } = await begin({ size: 6, description: 'Ours', architecture: 'arm64' });
    await append(id, 0, 'abc');
    expect(await append(id, 3, 'def', { isLast: true })).toMatchObject({ offset: 6, taken: {} });
    const said = { id, uid: 'uid-1', description: 'Ours', architecture: 'arm64' };
    expect(handOver.mock.calls[0]).toEqual([target, expect.objectContaining(said)]);
  });

  test('that others are uploaded before is not looked at until its turn has come', async () => {
    const { id } = await begin();
    const held = Promise.withResolvers<void>();
    const turns = new UploadTurns({ total: 2 });
    const first = turns.run({ content: Readable.from([]), ...sender }, () => held.promise);
    uploads = at('https://store.example.com', turns);
    const known = registry.calls.length;
    const second = append(id, 0, 'abc');
    await new Promise((resolve) => setImmediate(resolve));
    expect(registry.calls.length).toBe(known);
    held.resolve();
    await first;
    expect(await second).toMatchObject({ id, offset: 3 });
  });

  test('that an image has taken over is complete, and takes no more bytes', async () => {
    const { id } = await begin();
    await append(id, 0, 'abc', { isLast: true });
    registry.manifests.clear();
    takenBy.mockResolvedValue({} as never);
    expect(await uploads.state(target, id)).toEqual({ id, offset: 0, isComplete: true });
    await expect(append(id, 3, 'd')).rejects.toMatchObject(conflict('is complete'));
    await expect(uploads.cancel(target, id)).rejects.toMatchObject(conflict('is complete'));
  });

  test('that nobody knows is not found', async () => {
    await expect(uploads.state(target, 'other')).rejects.toMatchObject({ reason: 'NotFound' });
  });

  test('that is cancelled is gone', async () => {
    const { id } = await begin();
    expect(isThere(id)).toBe(true);
    await uploads.cancel(target, id);
    expect(isThere(id)).toBe(false);
  });

  test('that can never become an image is refused before anything of it is stored', async () => {
    const said = { description: 'Ours', architecture: 'arm64' } as const;
    look.mockRejectedValue(new Svc3Error('Forbidden', 'exceeded quota'));
    await expect(begin({ size: 6, ...said })).rejects.toMatchObject({ reason: 'Forbidden' });
    expect(look).toHaveBeenCalledWith(target, said);
    expect(registry.calls).toEqual([]);
  });

  test('cannot be begun where there is no store', async () => {
    uploads = at('');
    await expect(begin()).rejects.toMatchObject(conflict('no image store'));
  });
});

describe('bytes are refused', () => {
  test('from elsewhere than where the upload is', async () => {
    const { id } = await begin();
    await expect(append(id, 4, 'abc')).rejects.toMatchObject(conflict('is at 0, not 4'));
  });

  test('beyond what was announced, before one of them is stored', async () => {
    const { id } = await begin({ size: 2 });
    await expect(append(id, 0, 'abc')).rejects.toMatchObject({ reason: 'BadRequest' });
    expect(await uploads.state(target, id)).toMatchObject({ offset: 0 });
  });

  test.each([
    ['with what came before and fits kept', ['ab', 'c'], 2],
    ['with none kept of a piece that does not fit', ['abc'], 0],
  ])('beyond what was announced, where nobody said how many come, %s', async (_, pieces, kept) => {
    const { id } = await begin({ size: 2 });
    const given = vi.fn(() => Promise.resolve({ done: true, value: undefined }));
    const coming = pieces.map((piece) => Buffer.from(piece)).values();
    const content = {
      [Symbol.asyncIterator]: () => ({ next: () => Promise.resolve(coming.next()), return: given }),
    } as AsyncIterable<Buffer>;
    const bytes = { offset: 0, content, isLast: true, length: undefined, isWhole: () => true, ...sender };
    await expect(uploads.append(target, id, bytes)).rejects.toMatchObject({
      reason: 'BadRequest',
      message: 'body: with these bytes the file is larger than the 2 that were announced',
    });
    expect(await uploads.state(target, id)).toMatchObject({ offset: kept });
    expect(handOver).not.toHaveBeenCalled();
    // A socket that is closed here tells its client nothing.
    expect(given).not.toHaveBeenCalled();
  });

  test('where they end before they are all, and those that came are kept', async () => {
    const { id } = await begin();
    await expect(append(id, 0, 'abc', { isWhole: false })).rejects.toMatchObject({ reason: 'BadRequest' });
    expect(await uploads.state(target, id)).toMatchObject({ offset: 3 });
  });

  test.each<[string, number | undefined, string]>([
    ['as the last ones where more were announced', 6, 'abc'],
    ['as the last ones where none has come', undefined, ''],
  ])('%s', async (_, size, text) => {
    const { id } = await begin({ size });
    await expect(append(id, 0, text, { isLast: true })).rejects.toMatchObject({ reason: 'BadRequest' });
    expect(handOver).not.toHaveBeenCalled();
  });
});

describe('a file that is larger than workers take is refused', () => {
  const message = 'must not be larger than 1000 bytes (chart value store.maxFileSize)';
  const tooLarge = (field: string) => ({
    reason: 'Invalid',
    details: { causes: [{ field, message: expect.stringContaining(message) }] },
  });

  test.each([
    ['Upload-Length', { size: maxBytes + 1 }],
    ['Content-Length', { length: maxBytes + 1 }],
  ])('for its %s, before anybody is asked', async (field, said) => {
    await expect(begin(said)).rejects.toMatchObject(tooLarge(field));
    expect(look).not.toHaveBeenCalled();
    expect(registry.calls).toEqual([]);
  });

  test('where it goes on beyond that, before the store is asked', async () => {
    const { id } = await begin();
    const known = registry.calls.length;
    await expect(append(id, maxBytes - 2, 'abc')).rejects.toMatchObject(tooLarge('Content-Length'));
    await expect(append(id, maxBytes + 1, '')).rejects.toMatchObject(tooLarge('Upload-Offset'));
    expect(registry.calls.length).toBe(known);
  });

  test('where nobody says how much comes, with the bytes that are too many', async () => {
    const { id } = await begin();
    const refused = append(id, 0, 'x'.repeat(maxBytes + 1), { isMeasured: false, isLast: true });
    await expect(refused).rejects.toMatchObject(tooLarge('body'));
    expect(await uploads.state(target, id)).toMatchObject({ offset: 0 });
    expect(handOver).not.toHaveBeenCalled();
  });

  test('and one of that size is not', async () => {
    const { id } = await begin({ size: maxBytes, length: maxBytes });
    await append(id, 0, 'x'.repeat(maxBytes - 1));
    expect(await append(id, maxBytes - 1, 'x', { isMeasured: false, isLast: true })).toMatchObject({
      offset: maxBytes,
      taken: {},
    });
  });
});

describe('an upload that is whole and that no image takes', () => {
  test.each<[ErrorReason, boolean]>([
    ['AlreadyExists', false],
    ['NotFound', false],
    ['Invalid', false],
    // Its client can say again that it is whole.
    ['ServiceUnavailable', true],
    ['Conflict', true],
  ])('for %s', async (reason, stays) => {
    handOver.mockRejectedValue(new Svc3Error(reason, 'no'));
    const { id } = await begin();
    await expect(append(id, 0, 'abc', { isLast: true })).rejects.toMatchObject({ reason });
    expect(isThere(id)).toBe(stays);
  });
});
