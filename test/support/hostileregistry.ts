import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { digestOf } from './registry.ts';

/** More than anybody should read: there an answer without end stops, so that a reader that does not is not killed for it. */
const mostBytes = 192 * 2 ** 20;
const mib = Buffer.alloc(2 ** 20, ' ');

/** By which a registry (distribution) tells that an answer is its own. */
export const ofRegistry = { 'docker-distribution-api-version': 'registry/2.0' };

export type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

export interface HostileRegistry {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  /** What is answered at a path; elsewhere what a registry says that has nothing: 200 at `/v2/`, else 404. */
  readonly answers: Map<string, Answer>;
  /** Requests as `METHOD path`, in order. */
  readonly requests: string[];
  /** Value of `Authorization` of each request that had one. */
  readonly credentials: string[];
  /** Streams without end that have been begun, and that their readers have given up. */
  readonly endless: { begun: number; givenUp: number; bytes: number };
  /** Sends bytes until nobody reads them. */
  readonly withoutEnd: (response: ServerResponse) => Promise<void>;
  /** Answers with JSON, and serves it under its digest too. */
  put(path: string, document: unknown, mediaType: string): { digest: string; size: number };
  close(): void;
}

/**
 * A registry over plain HTTP that says whatever a test wants, and counts what is read of it. It cannot show how real ones answer;
 * test/integration/registry/client.test.ts does.
 */
export async function startHostileRegistry(): Promise<HostileRegistry> {
  const answers = new Map<string, Answer>();
  const requests: string[] = [];
  const credentials: string[] = [];
  const endless = { begun: 0, givenUp: 0, bytes: 0 };
  const server = createServer((request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    requests.push(`${request.method} ${request.url}`);
    const { authorization } = request.headers;
    if (authorization !== undefined) credentials.push(authorization);
    const answer = answers.get(path);
    if (answer === undefined) response.writeHead(path === '/v2/' ? 200 : 404, ofRegistry).end('{}');
    else void answer(request, response);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    answers,
    requests,
    credentials,
    endless,
    async withoutEnd(response) {
      endless.begun += 1;
      for (let sent = 0; sent < mostBytes && !response.destroyed; sent += mib.length) {
        endless.bytes += mib.length;
        if (!response.write(mib))
          await new Promise<void>((resolve) => {
            response.once('drain', resolve);
            response.once('close', resolve);
          });
      }
      if (response.destroyed) endless.givenUp += 1;
      response.end();
    },
    put(path, document, mediaType) {
      const bytes = Buffer.from(JSON.stringify(document));
      const digest = digestOf(bytes);
      const answer: Answer = (_request, response) =>
        void response.writeHead(200, { 'content-type': mediaType }).end(bytes);
      answers.set(path, answer);
      answers.set(path.replace(/[^/]+$/, digest), answer);
      return { digest, size: bytes.length };
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

const manifestType = 'application/vnd.oci.image.manifest.v1+json';

/** An image of one layer that is not there, under the tag `1`, with this configuration. */
export function putImage(
  registry: HostileRegistry,
  repository: string,
  config: { readonly digest: string; readonly size: unknown },
  more: Record<string, unknown> = {},
): { digest: string; size: number } {
  const layer = { mediaType: 'application/vnd.oci.image.layer.v1.tar', digest: zeros, size: 10_000 };
  return registry.put(
    `/v2/${repository}/manifests/1`,
    {
      schemaVersion: 2,
      mediaType: manifestType,
      config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...config },
      layers: [layer],
      ...more,
    },
    manifestType,
  );
}

export const zeros = `sha256:${'0'.repeat(64)}`;
