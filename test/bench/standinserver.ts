/**
 * What the operator needs of a kube-apiserver, with prepared answers: it costs next to no time of its own. It cannot show what writes and watches of
 * a real one cost; test/bench/vmrate.ts does.
 */
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { KubeObject } from '../../src/api/object.ts';
import { createClusterPki, kubeconfig } from '../../src/localcluster/controlplane/clusterpki.ts';
import { temporaryFolder } from '../support/controlplane.ts';

export interface StandInServer {
  readonly kubeconfigPath: string;
  /** Sends lines to the watches of a path; resolves when the system has taken them. */
  send(path: string, lines: readonly string[]): Promise<void>;
  isWatched(path: string): boolean;
  stop(): void;
}

export interface StandInOptions {
  /** Pages of items by path of the collection, each the items' JSON joined by commas; all others are empty. */
  readonly lists: Readonly<Record<string, readonly Buffer[]>>;
  /** The stored object, where a write changes a part of one. */
  stored(path: string): KubeObject | undefined;
  /** Called with each write. */
  written(method: string, path: string): void;
}

const version = 1_000;

export async function startStandIn(options: StandInOptions): Promise<StandInServer> {
  const dir = temporaryFolder();
  const pki = await createClusterPki(dir);
  const [key, cert] = await Promise.all(
    ['apiserver.key', 'apiserver.crt'].map((name) => readFile(join(dir, name))),
  );
  const watches = new Map<string, Http2ServerResponse>();
  const objects = new Map<string, KubeObject>();
  let written = version;

  const server = createSecureServer({ key, cert, allowHTTP1: true }, (request, response) => {
    answer(request, response).catch((error: unknown) => {
      console.error(error);
      response.destroy();
    });
  });

  async function answer(request: Http2ServerRequest, response: Http2ServerResponse): Promise<void> {
    const url = new URL(request.url, 'https://stand-in');
    const path = url.pathname;
    if (request.method !== 'GET') {
      await write(request, response, path);
      return;
    }
    const isSelective = url.searchParams.has('labelSelector');
    if (url.searchParams.has('watch')) {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.stream.setTimeout(0);
      // Those with a selector hear nothing: what is told here is for all.
      if (!isSelective) watches.set(path, response);
      return;
    }
    const object = objects.get(path);
    if (object !== undefined) return reply(response, 200, JSON.stringify(object));
    const isNamed = !isCollection(path);
    if (isNamed) return reply(response, 404, JSON.stringify(notFound));
    const pages = (isSelective ? undefined : options.lists[path]) ?? [];
    const page = Number(url.searchParams.get('continue') ?? 0);
    const next = page + 1 < pages.length ? `,"continue":"${page + 1}"` : '';
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write(
      `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"${version}"${next}},"items":[`,
    );
    if (pages[page] !== undefined) response.write(pages[page]);
    response.end(']}');
  }

  async function write(
    request: Http2ServerRequest,
    response: Http2ServerResponse,
    path: string,
  ): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const sent = parse(Buffer.concat(chunks).toString('utf8')) as KubeObject | undefined;
    options.written(request.method, path);
    written += 1;
    const target = request.method === 'POST' ? `${path}/${sent?.metadata?.name ?? ''}` : path;
    const before = options.stored(target.replace(/\/status$/, '')) ?? objects.get(target) ?? {};
    const metadata = {
      uid: `00000000-0000-4000-8000-${String(written).padStart(12, '0')}`,
      creationTimestamp: new Date().toISOString(),
      ...before.metadata,
      ...sent?.metadata,
      resourceVersion: `${written}`,
    };
    const after = { ...before, ...sent, metadata };
    if (options.stored(target.replace(/\/status$/, '')) === undefined) objects.set(target, after);
    reply(response, request.method === 'POST' ? 201 : 200, JSON.stringify(after));
  }

  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const kubeconfigPath = join(dir, 'kubeconfig');
  const address = `https://127.0.0.1:${port}`;
  const text = kubeconfig({ server: address, caPem: pki.authority.certPem, user: pki.admin });
  await writeFile(kubeconfigPath, text, { mode: 0o600 });
  return {
    kubeconfigPath,
    isWatched: (path) => watches.has(path),
    async send(path, lines) {
      const watch = watches.get(path);
      if (watch === undefined) throw new Error(`nobody watches ${path}`);
      if (!watch.write(`${lines.join('\n')}\n`)) await once(watch, 'drain');
    },
    stop() {
      watches.clear();
      server.close();
    },
  };
}

const notFound = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 };

function reply(response: Http2ServerResponse, code: number, body: string): void {
  response.writeHead(code, { 'content-type': 'application/json' });
  response.end(body);
}

/** `/api/v1/[namespaces/<namespace>/]<plural>` and alike below /apis. */
function isCollection(path: string): boolean {
  const parts = path.split('/').slice(path.startsWith('/apis/') ? 4 : 3);
  return parts.length === 1 || (parts[0] === 'namespaces' && parts.length === 3);
}
