import type { IncomingMessage } from 'node:http';
import type { Http2ServerRequest } from 'node:http2';
import { describe, expect, test } from 'vitest';
import { hasNoBody, requireJson } from '../../../../src/http/server/body.ts';

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
