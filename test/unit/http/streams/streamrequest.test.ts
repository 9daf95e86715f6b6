import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import {
  isStreamRequest,
  permissionOf,
  readStreamRequest,
} from '../../../../src/http/streams/streamrequest.ts';

const key = 'dGhlIHNhbXBsZSBub25jZQ==';

function request(url: string, headers: IncomingMessage['headers'] = {}, method = 'GET'): IncomingMessage {
  const handshake = { upgrade: 'websocket', 'sec-websocket-key': key, 'sec-websocket-version': '13' };
  return { method, url, headers: { ...handshake, ...headers } } as IncomingMessage;
}

const consoleUrl = '/api/v1/namespaces/team/vms/web/console/stream';
const tunnelUrl = '/api/v1/namespaces/team/vms/web/tunnel';

describe('what wants to become a WebSocket', () => {
  test.each([consoleUrl, `${consoleUrl}/`, `${tunnelUrl}?port=22`])('%s does', (url) => {
    expect(isStreamRequest(request(url))).toBe(true);
    expect(isStreamRequest(request(url, { upgrade: 'WebSocket' }))).toBe(true);
  });

  test.each<[string, IncomingMessage]>([
    ['another method', request(tunnelUrl, {}, 'POST')],
    ['another protocol', request(tunnelUrl, { upgrade: 'h2c' })],
    ['another path', request('/api/v1/namespaces/team/vms/web')],
    ['a path with more in it', request('/api/v1/namespaces/team/vms/a/b/tunnel')],
    ['a path in the query', request(`/api/v1/version?next=${tunnelUrl}`)],
  ])('%s does not', (_, given) => {
    expect(isStreamRequest(given)).toBe(false);
  });
});

test('a stream is named by its path, with its own right', () => {
  const console = readStreamRequest(request(`${consoleUrl}?ticket=${'a'.repeat(43)}`));
  const tunnel = readStreamRequest(request(`${tunnelUrl}?port=22`));
  expect(console).toMatchObject({ kind: 'vnc', params: { namespace: 'team', vm: 'web' } });
  expect(tunnel).toMatchObject({ kind: 'tunnel', query: { port: 22 } });
  expect(permissionOf(console)).not.toEqual(permissionOf(tunnel));
});

describe('a bad request names what is bad', () => {
  const field = (given: IncomingMessage): unknown => {
    try {
      return readStreamRequest(given);
    } catch (error) {
      return (error as { details?: { causes?: { field: string }[] } }).details?.causes?.map(
        (each) => each.field,
      );
    }
  };

  test.each<[string, IncomingMessage]>([
    ['vm', request('/api/v1/namespaces/team/vms/Not_a_name/tunnel?port=22')],
    // Not percent-encoding.
    ['vm', request('/api/v1/namespaces/team/vms/%E0%A4%A/tunnel?port=22')],
    ['port', request(`${tunnelUrl}?port=70000`)],
    ['Sec-WebSocket-Key', request(`${tunnelUrl}?port=22`, { 'sec-websocket-key': 'short' })],
    ['Sec-WebSocket-Key', request(`${tunnelUrl}?port=22`, { 'sec-websocket-key': undefined })],
    ['Sec-WebSocket-Version', request(`${tunnelUrl}?port=22`, { 'sec-websocket-version': '8' })],
    ['Content-Length', request(`${tunnelUrl}?port=22`, { 'content-length': '5' })],
    ['Transfer-Encoding', request(`${tunnelUrl}?port=22`, { 'transfer-encoding': 'chunked' })],
  ])('%s', (named, given) => {
    expect(field(given)).toContain(named);
  });

  test('a length of 0 is no body', () => {
    expect(readStreamRequest(request(`${tunnelUrl}?port=22`, { 'content-length': '0' })).kind).toBe('tunnel');
  });

  test('another path is not found', () => {
    expect(() => readStreamRequest(request('/api/v1/version'))).toThrow('could not find');
  });
});
