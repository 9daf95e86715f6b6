import { createHash } from 'node:crypto';
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
  return createHash('sha256').update(token).digest('base64');
}

/** Tokens that kube-apiserver has accepted, by hash, forgotten after a while. */
export function createProvenTokens() {
  const until = new Map<string, number>();
  return {
    has: (hash: string): boolean => (until.get(hash) ?? 0) > performance.now(),
    settle(hash: string, accepted: boolean): void {
      until.delete(hash);
      if (!accepted) {
        return;
      }
      until.set(hash, performance.now() + provenMs);
      const [oldest] = until.keys();
      if (until.size > provenLimit && oldest !== undefined) {
        until.delete(oldest);
      }
    },
  };
}

/**
 * The three connections that one process has to one kube-apiserver: its own, one for callers whose token was accepted
 * lately, one for all others. kube-apiserver answers a refused token with GOAWAY on that connection, so strangers must
 * not share one with watches, nor with callers that behave.
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
  const made = new Map<string, Endpoint>();
  return {
    get(role: 'own' | 'proven' | 'unproven'): Endpoint {
      const endpoint = made.get(role) ?? createEndpoint(origin, () => readTls(role === 'own'));
      made.set(role, endpoint);
      return endpoint;
    },
    all: (): Endpoint[] => [...made.values()],
  };
}
