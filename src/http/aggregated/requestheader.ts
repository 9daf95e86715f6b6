import type { IncomingMessage } from 'node:http';
import type { PeerCertificate, TLSSocket } from 'node:tls';
import type { ConfigMap, UserInfo } from '../../api/core.ts';
import { Svc3Error } from '../../errors.ts';

/** How kube-apiserver proves itself and says who calls: `kube-system/extension-apiserver-authentication`. */
export interface RequestHeaders {
  /** CA of the client certificate, PEM. */
  readonly clientCa: string;
  /** Common names that count; empty: any of that CA. */
  readonly allowedNames: readonly string[];
  readonly usernameHeaders: readonly string[];
  readonly uidHeaders: readonly string[];
  readonly groupHeaders: readonly string[];
  readonly extraHeaderPrefixes: readonly string[];
}

function listOf(text: string | undefined, fallback: readonly string[]): string[] {
  const value: unknown = text === undefined || text === '' ? [] : JSON.parse(text);
  const words = Array.isArray(value) ? value.filter((word) => typeof word === 'string') : [];
  return (words.length > 0 ? words : fallback).map((word) => word.toLowerCase());
}

/** Reads the ConfigMap; undefined where the cluster has no aggregation layer. */
export function requestHeadersOf(configMap: ConfigMap | undefined): RequestHeaders | undefined {
  const data = configMap?.data ?? {};
  const clientCa = data['requestheader-client-ca-file'];
  if (clientCa === undefined || clientCa === '') return undefined;
  const names: unknown = JSON.parse(data['requestheader-allowed-names'] ?? '[]');
  return {
    clientCa,
    allowedNames: Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [],
    usernameHeaders: listOf(data['requestheader-username-headers'], ['x-remote-user']),
    uidHeaders: listOf(data['requestheader-uid-headers'], ['x-remote-uid']),
    groupHeaders: listOf(data['requestheader-group-headers'], ['x-remote-group']),
    extraHeaderPrefixes: listOf(data['requestheader-extra-headers-prefix'], ['x-remote-extra-']),
  };
}

/**
 * Whether the socket's client certificate is kube-apiserver's: its CA *and* its name. Node says authorized for any name, and some versions of
 * it (20 does) for no certificate at all where a TLS 1.3 session was resumed: nothing was verified, so nothing failed.
 */
function isKubeApiServer(socket: TLSSocket, allowedNames: readonly string[]): boolean {
  if (!socket.authorized) return false;
  // Empty where there is none, null where the connection is gone; the types say neither.
  const certificate = socket.getPeerCertificate() as Partial<PeerCertificate> | null;
  const name = certificate?.subject?.CN;
  return typeof name === 'string' && (allowedNames.length === 0 || allowedNames.includes(name));
}

/**
 * Header pairs as they came: several of one name stay several, whatever the protocol. Node reads each byte as a character, and
 * kube-apiserver writes names of users and groups in UTF-8.
 */
function pairsOf(request: IncomingMessage): [name: string, value: string][] {
  const { rawHeaders } = request;
  const pairs: [string, string][] = [];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    pairs.push([
      (rawHeaders[index] ?? '').toLowerCase(),
      Buffer.from(rawHeaders[index + 1] ?? '', 'latin1').toString('utf8'),
    ]);
  return pairs;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Who calls, as kube-apiserver says; throws Unauthorized when it is not kube-apiserver that says so. */
export function remoteUser(request: IncomingMessage, headers: RequestHeaders | undefined): UserInfo {
  if (headers === undefined || !isKubeApiServer(request.socket as TLSSocket, headers.allowedNames))
    throw new Svc3Error('Unauthorized', 'Unauthorized: this API is reached through kube-apiserver');
  const pairs = pairsOf(request);
  const valuesOf = (names: readonly string[]): string[] =>
    pairs.flatMap(([name, value]) => (names.includes(name) ? [value] : []));
  const [username] = valuesOf(headers.usernameHeaders);
  if (username === undefined || username === '')
    throw new Svc3Error('Unauthorized', 'Unauthorized: no user name came with the request');
  const [uid] = valuesOf(headers.uidHeaders);
  const extra = new Map<string, string[]>();
  for (const [name, value] of pairs) {
    const prefix = headers.extraHeaderPrefixes.find((candidate) => name.startsWith(candidate));
    if (prefix === undefined) continue;
    const key = decoded(name.slice(prefix.length));
    extra.set(key, [...(extra.get(key) ?? []), value]);
  }
  return {
    username,
    groups: valuesOf(headers.groupHeaders),
    extra: Object.fromEntries(extra),
    ...(uid === undefined ? {} : { uid }),
  };
}
