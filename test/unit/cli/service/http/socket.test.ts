import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Context } from '../../../../../src/cli/context.ts';
import { openSocket } from '../../../../../src/cli/service/http/socket.ts';
import { pipeTerminal } from '../../../../../src/cli/tunnel.ts';
import { aTerminal } from '../../environment.ts';

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
