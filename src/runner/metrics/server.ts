import { createServer } from 'node:https';
import { once } from 'node:events';
import type { KeyObject } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { keepFresh } from '../../fresh.ts';
import { createMetricsTokenVerifier } from '../../runnerapi/metricstoken.ts';
import { TokenError } from '../../runnerapi/token.ts';
import type { RunnerCertificate } from '../certificate.ts';
import { contentType, type Family, metricsText } from './text.ts';

export interface MetricsServerOptions {
  readonly certificate: RunnerCertificate;
  readonly keys: () => Promise<readonly KeyObject[]>;
  /** Whose VM this is. */
  readonly namespace: string;
  readonly collect: () => Promise<readonly Family[]>;
}

/** An answer is good for so long, however many ask: QEMU and the guest are not asked twice meanwhile. In milliseconds. */
const freshMs = 1_000;
/** Longer than Prometheus keeps one that it does not use, five minutes: without it each scrape would begin with a handshake. In milliseconds. */
const keepConnectionMs = 6 * 60_000;
/** Several Prometheus servers and their probes; connections beyond these are closed. */
const mostConnections = 16;

/**
 * `GET /metrics` over HTTPS for who has the token of the namespace (`signMetricsToken`), and nothing else: a port of its own, so that
 * a NetworkPolicy can let Prometheus in and nobody to the control endpoint.
 */
export function createMetricsServer({ certificate, keys, namespace, collect }: MetricsServerOptions): {
  listen(host: string, port: number): Promise<number>;
  close(): Promise<void>;
} {
  const fresh = keepFresh<string>(freshMs);
  const verify = createMetricsTokenVerifier(namespace);

  async function answer(request: IncomingMessage): Promise<{ status: number; text: string }> {
    const [path] = (request.url ?? '').split('?', 1);
    if (path !== '/metrics' || request.method !== 'GET')
      return { status: 404, text: 'there is only GET /metrics\n' };
    try {
      const [, token = ''] = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '') ?? [];
      verify(token, await keys());
    } catch (error) {
      if (error instanceof TokenError) return { status: 401, text: `${error.message}\n` };
      throw error;
    }
    return { status: 200, text: await fresh(path, () => collect().then(metricsText)) };
  }

  const server = createServer(
    {
      key: certificate.key,
      cert: certificate.certificate,
      minVersion: 'TLSv1.3',
      ALPNProtocols: ['http/1.1'],
      maxHeaderSize: 8 * 1024,
      handshakeTimeout: 10_000,
    },
    (request, response) => {
      answer(request).then(
        ({ status, text }) => {
          // Who may not read keeps no connection from those who may.
          if (status !== 200) response.shouldKeepAlive = false;
          response.statusCode = status;
          response.setHeader('content-type', contentType);
          response.end(text);
        },
        () => response.writeHead(500).end(),
      );
    },
  );
  server.headersTimeout = 10_000;
  server.requestTimeout = 10_000;
  server.keepAliveTimeout = keepConnectionMs;
  server.maxConnections = mostConnections;
  // Those that are kept and not used stand in nobody's way.
  server.on('connection', () =>
    server.getConnections((_error, count) => {
      if (count > mostConnections / 2) server.closeIdleConnections();
    }),
  );
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  return {
    async listen(host, port) {
      server.listen(port, host);
      await once(server, 'listening');
      // What happens to this port is no reason to end the guest.
      server.on('error', () => undefined);
      return (server.address() as AddressInfo).port;
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
