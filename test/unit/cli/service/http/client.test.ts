import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, onTestFinished, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { createApiClient } from '../../../../../src/cli/service/http/client.ts';
import { createSelfSigned } from '../../../../../src/x509.ts';

test('a body that is streamed goes over HTTP/1.1: one of HTTP/2 that is given up may hang the process', async () => {
  const { certPem, keyPem } = await createSelfSigned(['localhost'], new Date());
  const folder = await mkdtemp(join(tmpdir(), 'svc3-client-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const caFile = join(folder, 'ca.pem');
  await writeFile(caFile, certPem);
  const options = { key: keyPem, cert: certPem, allowHTTP1: true };
  const server = createSecureServer(options, (request, response) => {
    request.resume().once('end', () => response.end(JSON.stringify(request.httpVersion)));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `https://localhost:${(server.address() as AddressInfo).port}`;
  const token = () => Promise.resolve('t');
  const api = createApiClient({ baseUrl, caFile, token, warning: () => undefined });
  onTestFinished(async () => {
    await api.close();
    server.close();
  });
  const stream = { content: Readable.from([Buffer.from('disk')]), size: 4 };
  expect((await api.json({ method: 'PATCH', path: '/upload', stream })).value).toBe('1.1');
});

test('a redirect is no answer, whatever it holds, nor is one to a console', async () => {
  const headers = { location: 'https://svc3.example.com/api/v1?code=secret' };
  const server = createServer((_request, response) => response.writeHead(308, headers).end('{}'));
  server.on('upgrade', (_request, socket) =>
    socket.end('HTTP/1.1 308 Moved\r\nLocation: https://svc3.example.com/\r\nContent-Length: 0\r\n\r\n'),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const token = () => Promise.resolve('t');
  const api = createApiClient({ baseUrl, token, warning: () => undefined });
  onTestFinished(async () => {
    await api.close();
    server.close();
  });
  const refusal = {
    reason: 'BadGateway',
    message: `${baseUrl} does not answer as an svc3 API does: it redirects to https://svc3.example.com`,
  };
  await expect(api.json({ method: 'GET', path: '/' })).rejects.toMatchObject(refusal);
  await expect(api.stream({ method: 'HEAD', path: '/' })).rejects.toMatchObject(refusal);
  await expect(api.socket('/console')).rejects.toMatchObject(refusal);
});

describe('a token that is refused', () => {
  /** A server that takes one token, and a client of it whose next token is another one; with which tokens it was asked for what. */
  async function aServer(other = 'new') {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      const { authorization = '' } = request.headers;
      void text(request).then((body) => {
        seen.push(`${authorization} ${body}`.trim());
        const isTaken = authorization === 'Bearer new';
        response
          .writeHead(isTaken ? 200 : 401)
          .end(isTaken ? '{}' : '{"kind":"Status","message":"who are you"}');
      });
    });
    const sockets = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request, socket, head) => {
      const { authorization } = request.headers;
      seen.push(`${authorization} socket`);
      if (authorization !== 'Bearer new')
        socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 17\r\n\r\n{"kind":"Status"}');
      else sockets.handleUpgrade(request, socket, head, (accepted) => accepted.close());
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const api = createApiClient({
      baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      token: (refused) => Promise.resolve(refused === undefined ? 'old' : other),
      warning: () => undefined,
    });
    onTestFinished(async () => {
      await api.close();
      server.close();
    });
    return { api, seen };
  }

  test('is sent no more where there is another one: the request is repeated with that', async () => {
    const { api, seen } = await aServer();
    expect((await api.json({ method: 'POST', path: '/', body: { a: 1 } })).status).toBe(200);
    expect(seen).toEqual(['Bearer old {"a":1}', 'Bearer new {"a":1}']);
  });

  test('nor is it sent again for a console', async () => {
    const { api, seen } = await aServer();
    (await api.socket('/console')).destroy();
    expect(seen).toEqual(['Bearer old socket', 'Bearer new socket']);
  });

  test.each(['old', 'worse'])('is told, where the other one is "%s"', async (other) => {
    const { api, seen } = await aServer(other);
    const refusal = { reason: 'Unauthorized', message: 'who are you; svc3 login gets a new token' };
    await expect(api.json({ method: 'GET', path: '/' })).rejects.toMatchObject(refusal);
    await expect(api.socket('/console')).rejects.toMatchObject({ reason: 'Unauthorized' });
    const repeated = other === 'old' ? [] : [other];
    expect(seen).toEqual(
      ['', ' socket'].flatMap((what) => ['old', ...repeated].map((token) => `Bearer ${token}${what}`)),
    );
  });

  test('is told where the body was streamed, which cannot be sent again', async () => {
    const { api, seen } = await aServer();
    const stream = { content: Readable.from([Buffer.from('disk')]), size: 4 };
    await expect(api.json({ method: 'PATCH', path: '/', stream })).rejects.toMatchObject({
      reason: 'Unauthorized',
    });
    expect(seen).toEqual(['Bearer old disk']);
  });

  test('is nothing to a request without one', async () => {
    const { api, seen } = await aServer();
    await expect(api.json({ method: 'GET', path: '/', anonymous: true })).rejects.toThrow('who are you');
    expect(seen).toEqual(['']);
  });
});
