import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createSecureServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
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
