import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Duplex, PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setImmediate as turn } from 'node:timers/promises';
import { afterEach, aroundEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Context } from '../../../../../src/cli/context.ts';
import { openSocket } from '../../../../../src/cli/service/http/socket.ts';
import { pipeTerminal } from '../../../../../src/cli/tunnel.ts';
import { joinWebSocket } from '../../../../../src/net/websocket.ts';
import { aTerminal } from '../../environment.ts';
import { withFakeTimers } from '../../../timers.ts';

let server: WebSocketServer;
let origin: string;

beforeEach(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  for (const client of server.clients) client.terminate();
  server.close();
});

/** The stream of a connection to which the server does this as soon as it stands. */
async function opened(act: (socket: WebSocket) => void) {
  server.once('connection', (socket) => {
    socket.send('before');
    act(socket);
  });
  return openSocket({ url: `${origin}/stream`, token: 't' });
}

/** What the command line says when the server does this. */
async function piped(act: (socket: WebSocket) => void, signal?: AbortSignal): Promise<string> {
  const terminal = aTerminal();
  const { environment } = terminal;
  const context = {
    environment: { ...environment, stdin: new PassThrough() },
    signal: signal ?? environment.signal,
  } as unknown as Context;
  await pipeTerminal(context, await opened(act));
  return terminal.stdout();
}

describe('a WebSocket of the api', () => {
  test.each<[string, (socket: WebSocket) => void]>([
    ['without a code', (socket) => socket.close()],
    ['with the code of an end', (socket) => socket.close(1000, 'done')],
  ])('that is closed %s is a stream that ends', async (_, act) => {
    expect((await buffer(await opened(act))).toString()).toBe('before');
    expect(await piped(act)).toBe('before');
  });

  test.each<[string, (socket: WebSocket) => void, string, string]>([
    [
      'is cut',
      (socket) => setTimeout(() => socket.terminate(), 20),
      'BadGateway',
      'the connection to ORIGIN was cut',
    ],
    [
      'is left by a server that goes away',
      (socket) => socket.close(1001, 'going away'),
      'BadGateway',
      'the connection to ORIGIN was cut: going away',
    ],
    [
      'was cut behind the server',
      (socket) => socket.close(1014, "the connection to the VM's runner was cut"),
      'BadGateway',
      "the connection to the VM's runner was cut",
    ],
    [
      'ends with its token',
      (socket) => socket.close(1008, 'Unauthorized: the session has ended with the token that opened it'),
      'Unauthorized',
      'Unauthorized: the session has ended with the token that opened it; svc3 login gets a new token',
    ],
    [
      'ends with the right to it',
      (socket) => socket.close(1008, 'user "a" cannot get vms/tunnel'),
      'Forbidden',
      'user "a" cannot get vms/tunnel',
    ],
  ])('that %s says why', async (_, act, reason, message) => {
    const fault = { reason, message: message.replace('ORIGIN', origin) };
    await expect(buffer(await opened(act))).rejects.toMatchObject(fault);
    await expect(piped(act)).rejects.toMatchObject(fault);
  });

  test.each([
    ['at once', 0],
    ['later', 100],
  ])('that we leave %s ends without a word', async (_, ms) => {
    const stopping = new AbortController();
    const leave = () => (ms === 0 ? stopping.abort() : void setTimeout(() => stopping.abort(), ms));
    await piped(leave, stopping.signal);
    expect(stopping.signal.aborted).toBe(true);
  });
});

describe('what is sent to a WebSocket of the api', () => {
  aroundEach((runTest) => {
    withFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    return runTest();
  });

  /** Standard input and output, joined to a stream of the server. */
  async function piping(stdin: Readable): Promise<{ over: Promise<void> }> {
    const { environment } = aTerminal();
    const context = {
      environment: { ...environment, stdin },
      signal: environment.signal,
    } as unknown as Context;
    return { over: pipeTerminal(context, await openSocket({ url: `${origin}/stream`, token: 't' })) };
  }

  /** As soon as the sockets of this process have had their turns. */
  async function until(holds: () => boolean, turns = 10_000): Promise<void> {
    for (let left = turns; left > 0 && !holds(); left -= 1) await turn();
    expect(holds()).toBe(true);
  }

  test('comes to a guest that is slow to its last byte', async () => {
    const held: (() => void)[] = [];
    const taken: Buffer[] = [];
    const guest = new Duplex({
      read: () => undefined,
      write(chunk: Buffer, _encoding, done) {
        taken.push(chunk);
        held.push(done);
      },
    });
    server.once('connection', (socket) =>
      joinWebSocket(socket, guest, () => ({ code: 1011, reason: 'broken' })),
    );
    const piece = Buffer.alloc(65_000, 'upload ');
    const all = Array.from({ length: 10 }, () => piece);
    const { over } = await piping(Readable.from(all));
    // Sent, as far as this process can tell; the guest takes no more than that needs.
    let turns = 0;
    await until(() => {
      turns += 1;
      if (turns % 100 === 0) held.shift()?.();
      return vi.getTimerCount() > 0;
    });
    await vi.advanceTimersByTimeAsync(120_000);
    expect(guest.writableFinished).toBe(false);
    await until(() => {
      held.shift()?.();
      return guest.destroyed;
    });
    await over;
    expect(guest.writableFinished).toBe(true);
    expect(Buffer.concat(taken).equals(Buffer.concat(all))).toBe(true);
  });

  test('is told as cut where its end is never answered', async () => {
    server.once('connection', (socket) => socket.pause());
    const { over } = await piping(Readable.from(['the last word']));
    const refused = expect(over).rejects.toMatchObject({
      reason: 'BadGateway',
      message: `the connection to ${origin} was cut`,
    });
    await until(() => vi.getTimerCount() > 0);
    await vi.advanceTimersByTimeAsync(900_000);
    await refused;
  });
});
