import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { createRunnerClient, type RunnerClient } from '../../../src/runnerapi/client.ts';
import { downloadExport } from '../../../src/runnerapi/download.ts';
import { askProgress } from '../../../src/controllers/image/askprogress.ts';
import { createCertificate } from '../../../src/runner/certificate.ts';

const certificate = createCertificate('vm-1');
const state = { version: 1, vmUid: 'vm-1', powerState: 'Running', guestReachable: true };

let server: Server;
let client: RunnerClient;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let closed: Promise<void>;

/** A byte now and then, and never the last one. */
function drip(response: ServerResponse): void {
  response.write(' ');
  const timer = setInterval(() => response.write(' '), 20);
  response.once('close', () => clearInterval(timer));
}

beforeAll(async () => {
  server = createServer({ key: certificate.key, cert: certificate.certificate }, (request, response) => {
    closed = new Promise((resolve) => response.once('close', resolve));
    answer(request, response);
  });
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  server.on('upgrade', (request, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (ws) => {
      ws.on('error', () => undefined);
      closed = new Promise((resolve) => ws.once('close', () => resolve()));
      ws.send(Buffer.alloc(request.url === '/v1/vnc' ? 2 ** 20 : 2 ** 20 + 1));
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
});

const open = (times: { callTimeoutMs?: number } = {}): RunnerClient =>
  createRunnerClient({
    address: '127.0.0.1',
    port: (server.address() as AddressInfo).port,
    vmUid: 'vm-1',
    sign: () => 'token',
    ...times,
  });

beforeEach(() => {
  client = open();
});

afterAll(() => {
  server?.closeAllConnections();
  server?.close();
});

describe('a runner that means harm', () => {
  test('and answers without end is not read beyond a limit', async () => {
    let sent = 0;
    answer = (_request, response) => {
      const more = (): void => {
        while (!response.destroyed && sent < 2 ** 28) {
          sent += 65_536;
          if (!response.write(Buffer.alloc(65_536, ' '))) {
            response.once('drain', more);
            return;
          }
        }
      };
      more();
    };
    await expect(client.state()).rejects.toMatchObject({
      reason: 'BadGateway',
      message: 'the reply of the runner is too large',
    });
    await closed;
    expect(sent).toBeLessThan(2 ** 25);
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['sends a byte now and then', drip],
    ['sends nothing', () => undefined],
  ])('and %s is given up after the time of a call', async (_, sends) => {
    answer = (_request, response) => sends(response);
    await expect(open({ callTimeoutMs: 500 }).state()).rejects.toMatchObject({ reason: 'Timeout' });
    await closed;
  });

  test('and says much is remembered in short', async () => {
    const long = 'x'.repeat(200_000);
    answer = (_request, response) =>
      response.end(JSON.stringify({ ...state, message: long, reason: long, more: long }));
    const { message, reason, ...rest } = await client.state();
    expect([message?.length, reason?.length]).toEqual([1024, 64]);
    expect(rest).not.toHaveProperty('more');
  });

  test.each([
    ['a long message', { message: 'x'.repeat(200_000) }, /^x{1023}…$/],
    ['a message that is none', { message: { a: 1 } }, /^the runner answered 409$/],
    ['null', null, /^the runner answered 409$/],
  ])('and refuses with %s is quoted in short', async (_, body, message) => {
    answer = (_request, response) => response.writeHead(409).end(JSON.stringify(body));
    await expect(client.eject()).rejects.toMatchObject({
      reason: 'Conflict',
      message: expect.stringMatching(message),
    });
  });

  test.each([
    ['a disk of more bytes than there are', { diskSize: 1e300 }],
    ['a disk of less than nothing', { diskSize: -1 }],
    ['a state that is none', { powerState: 'Running forever' }],
  ])('and reports %s is not believed', async (_, wrong) => {
    answer = (_request, response) => response.end(JSON.stringify({ ...state, ...wrong }));
    await expect(client.state()).rejects.toThrow();
  });

  test('and sends a frame larger than any honest one loses the stream', async () => {
    const vnc = await client.openVnc();
    const first = await new Promise<Buffer>((resolve) => vnc.once('data', resolve));
    expect(first.length).toBe(2 ** 20);
    vnc.destroy();
    const tunnel = await client.openTunnel(22);
    await expect(new Promise((_resolve, reject) => tunnel.once('error', reject))).rejects.toThrow(
      'Max payload size exceeded',
    );
    await closed;
  });

  test('and gives other bytes of an export than asked for is not believed', async () => {
    answer = (_request, response) =>
      response.writeHead(206, { 'content-range': 'bytes 0-9/10' }).end(Buffer.alloc(10));
    const source = {
      address: '127.0.0.1',
      port: (server.address() as AddressInfo).port,
      fingerprint: certificate.fingerprint,
      ticket: { ticket: 't', path: '/v1/exports/a/data' },
    };
    await expect(downloadExport({ ...source, start: 5 })).rejects.toMatchObject({ reason: 'BadGateway' });
    expect((await downloadExport(source)).size).toBe(10);
  });
});

test('a worker that sends a byte now and then says no progress', async () => {
  const worker = createHttpServer((_request, response) => drip(response));
  await new Promise<void>((resolve) => {
    worker.listen(0, '127.0.0.1', resolve);
  });
  expect(await askProgress('127.0.0.1', (worker.address() as AddressInfo).port)).toBeUndefined();
  worker.closeAllConnections();
  worker.close();
});
