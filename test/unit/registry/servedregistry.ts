import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { sha256 } from '../../../src/registry/manifest.ts';
import type { MemoryRegistry } from './memoryregistry.ts';

export interface ServedOptions {
  /** Most bytes that it takes in one request; else there is no bound. */
  readonly largestBody?: number;
}

/** Answers of the distribution specification, as far as a worker asks. */
async function answer(
  registry: MemoryRegistry,
  { largestBody = Infinity }: ServedOptions,
  request: IncomingMessage,
  response: ServerResponse,
) {
  const { method, headers } = request;
  const url = new URL(request.url ?? '', 'http://registry');
  const [, repository = '', what, name = ''] =
    /^\/v2\/(.+?)\/(manifests|blobs|blobs\/uploads)\/([^/]*)$/.exec(url.pathname) ?? [];
  const body = await buffer(request);
  const reply = (status: number, given: Record<string, string> = {}, bytes?: Buffer): void =>
    void response.writeHead(status, given).end(method === 'HEAD' ? undefined : bytes);
  if (url.pathname === '/v2/') return reply(200);
  if (body.length > largestBody) return reply(413);
  if (what === 'manifests' && method === 'PUT') {
    await registry.putManifest(repository, name, body, headers['content-type'] ?? '');
    return reply(201);
  }
  if (what === 'manifests' && method === 'DELETE') {
    await registry.deleteManifest(repository, name);
    return reply(202);
  }
  if (what === 'manifests') {
    const found = registry.manifests.get(`${repository}${name.startsWith('sha256:') ? '@' : ':'}${name}`);
    if (found === undefined) return reply(404);
    return reply(
      200,
      { 'content-type': found.mediaType, 'docker-content-digest': sha256(found.bytes) },
      found.bytes,
    );
  }
  if (what === 'blobs') {
    const bytes = registry.blobs.get(name);
    return bytes === undefined ? reply(404) : reply(200, { 'content-length': `${bytes.length}` }, bytes);
  }
  const location = `/v2/${repository}/blobs/uploads/one`;
  if (method === 'POST') return reply(202, { location });
  if (method === 'DELETE') return reply(204);
  const held = registry.uploads.get(repository) ?? Buffer.alloc(0);
  if (method === 'PATCH') {
    registry.uploads.set(repository, Buffer.concat([held, body]));
    return reply(202, { location });
  }
  registry.blobs.set(url.searchParams.get('digest') ?? '', held);
  registry.uploads.delete(repository);
  return reply(201);
}

/**
 * Serves a registry in memory over plain HTTP; its address as `host:port`. It cannot show how real ones answer; test/integration/registry/client.test.ts
 * and test/integration/worker/work.test.ts do.
 */
export async function serve(registry: MemoryRegistry, options: ServedOptions = {}): Promise<string> {
  const server = createServer((request, response) => void answer(registry, options, request, response));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}
