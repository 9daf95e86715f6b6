import { hash } from 'node:crypto';
import type { ConnectionOptions } from 'node:tls';
import type { ConnectionConfig } from './connection.ts';
import { readPem } from './connection.ts';
import type { Credential } from './credential.ts';
import { createEndpoint } from './endpoint.ts';
import type { Endpoint } from './endpoint.ts';

/** How long a caller's token that was accepted once counts as proven. */
const provenMs = 5 * 60_000;
const provenLimit = 10_000;

/** A token as it is remembered. */
export function hashOf(token: string): string {
  return hash('sha256', token, 'base64');
}

/** Tokens that kube-apiserver has accepted, by hash, forgotten after a while. */
export function createProvenTokens() {
  const until = new Map<string, number>();
  return {
    has: (hash: string): boolean => (until.get(hash) ?? 0) > performance.now(),
    note(hash: string, accepted: boolean): void {
      until.delete(hash);
      if (!accepted) return;
      until.set(hash, performance.now() + provenMs);
      const [oldest] = until.keys();
      if (until.size > provenLimit && oldest !== undefined) until.delete(oldest);
    },
  };
}

/** Connections for callers whose token was not accepted yet. */
export const unprovenConnections = 4;

/**
 * The connections that one process has to one kube-apiserver: its own and one for callers whose token was accepted lately,
 * both HTTP/2, and a few of HTTP/1.1 for all other callers. kube-apiserver answers a refused token with the end of that connection,
 * so those callers must not share one with watches, nor with callers that behave: over HTTP/1.1 a connection carries one call,
 * and its end hurts no other.
 */
export function createEndpoints(config: ConnectionConfig, credential: Credential) {
  const origin = new URL(config.server).origin;
  const readTls = async (own: boolean): Promise<ConnectionOptions> => {
    const certificate = own ? await credential.clientCertificate() : undefined;
    return {
      ...(config.ca === undefined ? {} : { ca: await readPem(config.ca) }),
      ...(config.insecureSkipTlsVerify === true ? { rejectUnauthorized: false } : {}),
      ...(config.tlsServerName === undefined ? {} : { servername: config.tlsServerName }),
      ...certificate,
    };
  };
  const own = createEndpoint(origin, () => readTls(true));
  const callers = createEndpoint(origin, () => readTls(false));
  const unproven = createEndpoint(origin, () => readTls(false), {
    http1Only: { connections: unprovenConnections },
  });
  const byRole = { own, proven: callers, unproven } as const;
  return {
    get: (role: keyof typeof byRole): Endpoint => byRole[role],
    all: (): Endpoint[] => Object.values(byRole),
  };
}
