import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { connect, type TLSSocket } from 'node:tls';
import type { TestApi } from './api.ts';

const carriers = new WeakMap<TLSSocket, Socket>();

/** A TLS connection that speaks what the test writes into it. */
export function rawConnection(api: TestApi, localAddress = '127.0.0.1'): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const carrier = connectTcp({ port: api.port, host: '127.0.0.1', localAddress }).on('error', reject);
    const options = { socket: carrier, servername: 'localhost', ca: api.tls.cert };
    const socket = connect({ ...options, ALPNProtocols: ['http/1.1'] }, () => resolve(socket));
    carriers.set(socket, carrier);
    socket.on('error', reject);
  });
}

/** Ends a connection without a word to the other side's TLS: TCP RST. */
export function reset(socket: TLSSocket): void {
  carriers.get(socket)?.resetAndDestroy();
}

export interface RawAnswer {
  readonly status: number;
  readonly text: string;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into replies as they please
  readonly json: any;
}

export function answerOf(text: string): RawAnswer {
  const [head = '', ...rest] = text.split('\r\n\r\n');
  let json: unknown;
  try {
    json = JSON.parse(rest.join('\r\n\r\n'));
  } catch {
    json = undefined;
  }
  return { status: Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1] ?? 0), text, json };
}

/** Writes bytes and gives back all that came until the server ended the connection. */
export async function exchange(api: TestApi, bytes: string | Buffer): Promise<RawAnswer> {
  const socket = await rawConnection(api);
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk));
  socket.write(bytes);
  if (!socket.destroyed) await once(socket, 'close');
  return answerOf(text);
}

/** The head of a request that wants a WebSocket; `undefined` leaves a header out. */
export function handshake(
  path: string,
  { method = 'GET', ...headers }: Readonly<Record<string, string | undefined>> = {},
): string {
  const all: Record<string, string | undefined> = {
    Host: 'localhost',
    Connection: 'Upgrade',
    Upgrade: 'websocket',
    'Sec-WebSocket-Version': '13',
    'Sec-WebSocket-Key': randomBytes(16).toString('base64'),
    ...headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}: ${value}`],
  );
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

/** A frame as a client sends it, by default masked; lengths are written as given, fitting or not. */
export function frame(
  opcode: number,
  payload: Buffer | string = '',
  options: { fin?: boolean; rsv?: number; masked?: boolean; length?: bigint } = {},
): Buffer {
  const { fin = true, rsv = 0, masked = true } = options;
  const data = Buffer.from(payload);
  const length = options.length ?? BigInt(data.length);
  const first = (fin ? 0x80 : 0) | (rsv << 4) | opcode;
  const maskBit = masked ? 0x80 : 0;
  const head =
    length < 126n
      ? Buffer.from([first, maskBit | Number(length)])
      : length < 65_536n
        ? Buffer.from([first, maskBit | 126, Number(length >> 8n), Number(length & 0xffn)])
        : Buffer.from([first, maskBit | 127, ...Buffer.alloc(8)]);
  if (length >= 65_536n) head.writeBigUInt64BE(length, 2);
  // A mask of zeros leaves the payload as it is.
  return Buffer.concat([head, ...(masked ? [Buffer.alloc(4)] : []), data]);
}

/** What the data frames of a server carry, as far as they are there; a server masks none. */
export function carried(bytes: Buffer): Buffer {
  const payloads: Buffer[] = [];
  let at = 0;
  while (at + 2 <= bytes.length) {
    const short = bytes.readUInt8(at + 1);
    const head = short < 126 ? 2 : short === 126 ? 4 : 10;
    if (at + head > bytes.length) break;
    const length =
      head === 2 ? short : head === 4 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2));
    const isControl = (bytes.readUInt8(at) & 0x08) !== 0;
    if (!isControl) payloads.push(bytes.subarray(at + head, at + head + length));
    at += head + length;
  }
  return Buffer.concat(payloads);
}
