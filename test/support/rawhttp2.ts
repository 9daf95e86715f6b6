import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import type { TestApi } from './api.ts';

const types = { data: 0, headers: 1, settings: 4, windowUpdate: 8 } as const;
const endOfHeaders = 4;
const headBytes = 9;
/** Of a connection and of each stream, before the other side has given more (RFC 9113, 6.9.2). */
const firstWindow = 65_535;

function frameHead(length: number, type: number, flags: number, stream: number): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return head;
}

const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer =>
  Buffer.concat([frameHead(payload.length, type, flags, stream), payload]);

/** A number of 127 and more as HPACK goes on with it behind a prefix of seven bits (RFC 7541, 5.1). */
function continued(rest: number): number[] {
  return rest < 128 ? [rest] : [(rest % 128) + 128, ...continued(Math.floor(rest / 128))];
}

/** ASCII as HPACK writes it without Huffman's code. */
function text(value: string): Buffer {
  const length = value.length < 127 ? [value.length] : [127, ...continued(value.length - 127)];
  return Buffer.from([...length, ...Buffer.from(value)]);
}

/** Fields by their places in the static table of HPACK (RFC 7541, appendix A); none is kept for later. */
function headersOfPost(path: string, token: string): Buffer {
  const [post, https] = [0x83, 0x87];
  const [authority, pathField] = [0x01, 0x04];
  const authorization = [0x0f, 0x08];
  return Buffer.concat([
    Buffer.from([post, https, pathField]),
    text(path),
    Buffer.from([authority]),
    text('localhost'),
    Buffer.from(authorization),
    text(`Bearer ${token}`),
  ]);
}

/** A connection whose frames are cut as the test wants them; libraries put small pieces together. */
export interface RawHttp2 {
  readonly socket: TLSSocket;
  /** Begins a request that has a body. */
  post(stream: number, path: string, token: string): void;
  /** Sends so many DATA frames with this payload, as the windows of the other side allow it; none is the last. */
  send(stream: number, payload: Buffer, count: number): Promise<void>;
}

export async function rawHttp2({ port, tls }: TestApi): Promise<RawHttp2> {
  const socket = connect({ port, servername: 'localhost', ca: tls.cert, ALPNProtocols: ['h2'] });
  await once(socket, 'secureConnect');
  socket.on('error', () => undefined);
  const windows = new Map([[0, firstWindow]]);
  const windowOf = (stream: number): number => windows.get(stream) ?? firstWindow;
  const widen = (stream: number, bytes: number): void => {
    windows.set(stream, windowOf(stream) + bytes);
  };
  let widened = Promise.withResolvers<void>();
  let held: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= headBytes && held.length >= headBytes + held.readUIntBE(0, 3)) {
      const end = headBytes + held.readUIntBE(0, 3);
      if (held.readUInt8(3) === types.windowUpdate) widen(held.readUInt32BE(5), held.readUInt32BE(headBytes));
      held = held.subarray(end);
    }
    widened.resolve();
    widened = Promise.withResolvers<void>();
  });
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  socket.write(frameHead(0, types.settings, 0, 0));
  return {
    socket,
    post: (stream, path, token) =>
      void socket.write(frame(types.headers, endOfHeaders, stream, headersOfPost(path, token))),
    async send(stream, payload, count) {
      const one = frame(types.data, 0, stream, payload);
      for (let left = count; left > 0;) {
        const room = Math.floor(Math.min(windowOf(0), windowOf(stream)) / payload.length);
        const now = Math.min(room, left);
        if (now === 0) {
          await widened.promise;
          continue;
        }
        for (const each of [0, stream]) widen(each, -now * payload.length);
        left -= now;
        if (!socket.write(Buffer.alloc(now * one.length, one))) await once(socket, 'drain');
      }
    },
  };
}
