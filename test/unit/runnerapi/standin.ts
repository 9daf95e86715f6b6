import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { WebSocketServer } from 'ws';
import { createCertificate, type RunnerCertificate } from '../../../src/runner/certificate.ts';

/** How many connections of a server are open. */
export function connectionsOf(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
  );
}

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly authorization: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface StandIn {
  readonly port: number;
  readonly certificate: RunnerCertificate;
  readonly asked: Asked[];
  /** What streams are opened on. */
  readonly sockets: WebSocketServer;
  /** TLS connections that have been opened. */
  connections(): number;
  /** Those of them that are open still. */
  open(): Promise<number>;
  close(): void;
}

/**
 * Stands in for a runner's endpoint, to see what is sent and to answer what no honest runner answers. What it cannot show, that
 * a runner takes what is sent: test/integration/runner/control.test.ts.
 */
export async function standIn(
  answer: (asked: Asked, response: ServerResponse) => void,
  upgrade?: (asked: Asked, socket: Duplex) => 'refused' | 'accepted',
  certificate = createCertificate('vm-1'),
): Promise<StandIn> {
  const asked: Asked[] = [];
  let connections = 0;
  const note = (request: IncomingMessage, body = ''): Asked => {
    const { method = '', url = '', headers } = request;
    const one = { method, path: url, authorization: headers.authorization ?? '', headers, body };
    asked.push(one);
    return one;
  };
  const { key, certificate: cert } = certificate;
  const server = createServer({ key, cert }, (request, response) => {
    void text(request).then((body) => answer(note(request, body), response));
  });
  server.on('secureConnection', () => connections++);
  const sockets = new WebSocketServer({ noServer: true });
  server.on('upgrade', (request, socket, head) => {
    const one = note(request);
    if (upgrade?.(one, socket) === 'refused') return;
    sockets.handleUpgrade(request, socket, head, (ws) => {
      ws.on('message', (said: Buffer) => ws.send(`heard ${said.toString()}`));
    });
  });
  const close = (): void => {
    server.close();
    server.closeAllConnections();
    for (const ws of sockets.clients) ws.terminate();
  };
  onTestFinished(close);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = (): Promise<number> => connectionsOf(server);
  return { port, certificate, asked, sockets, connections: () => connections, open, close };
}
