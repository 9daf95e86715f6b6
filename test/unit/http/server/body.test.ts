import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { describe, expect, test, vi } from 'vitest';
import { hasNoBody, readBody, requireJson } from '../../../../src/http/server/body.ts';

test.each<[IncomingMessage['headers'], boolean]>([
  [{}, true],
  [{ 'content-length': '0' }, true],
  [{ 'content-length': '2' }, false],
  [{ 'transfer-encoding': 'chunked' }, false],
])('HTTP/1.1 with %j: nothing follows: %j', (headers, isEmpty) => {
  expect(hasNoBody({ headers } as IncomingMessage)).toBe(isEmpty);
});

test.each([true, false])(
  'HTTP/2 says by the end of its stream that nothing follows: %j',
  (endAfterHeaders) => {
    expect(hasNoBody({ headers: {}, stream: { endAfterHeaders } } as Http2ServerRequest)).toBe(
      endAfterHeaders,
    );
  },
);

test('a body that was refused holds nothing, though the rest of it comes', async () => {
  const held = {
    take: vi.fn(),
    receive: vi.fn(),
    complete: vi.fn(),
    shrink: vi.fn(),
    release: vi.fn(),
  };
  const stream = new PassThrough();
  const read = readBody(stream, {}, { maxBytes: 4, timeoutMs: 60_000, held });
  stream.write('too much');
  await expect(read).rejects.toMatchObject({ reason: 'RequestEntityTooLarge' });
  stream.resume().end(' and more');
  await once(stream, 'end');
  expect([held.release.mock.calls.length, held.complete.mock.calls.length]).toEqual([1, 0]);
});

describe('the type of a JSON body', () => {
  test.each([
    undefined,
    '',
    'application/json',
    'Application/JSON; charset=utf-8',
    'text/json',
    'application/merge-patch+json',
    'application/vnd.example.v1+json ; q=1',
  ])('%j is taken', (type) => {
    expect(() => requireJson(type)).not.toThrow();
  });

  test.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/yaml',
    'application/jsonp',
    'application/+json',
    'text/vnd.a+json',
    ';application/json',
  ])('%j is refused by its header', (type) => {
    expect(() => requireJson(type)).toThrow(
      expect.objectContaining({
        reason: 'UnsupportedMediaType',
        message: 'Content-Type: must be application/json',
      }),
    );
  });
});
