import type { IncomingMessage } from 'node:http';
import { Svc3Error } from '../../errors.ts';
import { validate } from '../../wire/fields.ts';
import type { Permission } from '../call/route.ts';
import { streamConsole, streamSerial, streamTunnel } from '../routes/console.ts';
import { tunnelQuery, vmParams } from '../../wire/schemas.ts';

/** What somebody who opens a WebSocket wants. */
export interface StreamRequest {
  readonly kind: 'vnc' | 'serial' | 'tunnel';
  /** Below `/ui`: who asks is known by the session of the page. */
  readonly isOfPage: boolean;
  readonly params: { readonly namespace: string; readonly vm: string };
  readonly query: { readonly port?: number | undefined; readonly ticket?: string | undefined };
}

const paths = [
  {
    kind: 'vnc',
    route: streamConsole,
    pattern: /^\/api\/v1\/namespaces\/([^/]+)\/vms\/([^/]+)\/console\/stream\/?$/,
  },
  {
    kind: 'serial',
    route: streamSerial,
    pattern: /^(?:\/ui)?\/api\/v1\/namespaces\/([^/]+)\/vms\/([^/]+)\/serial\/?$/,
  },
  {
    kind: 'tunnel',
    route: streamTunnel,
    pattern: /^\/api\/v1\/namespaces\/([^/]+)\/vms\/([^/]+)\/tunnel\/?$/,
  },
] as const;

const routes = { vnc: streamConsole, serial: streamSerial, tunnel: streamTunnel } as const;

/** The right that the stream needs. */
export function permissionOf({ kind }: StreamRequest): Permission {
  return routes[kind].permission;
}

/** Whether a request wants to become a WebSocket of ours; everything else with `Upgrade` is answered as if it had none. */
export function isStreamRequest({ method, url = '/', headers }: IncomingMessage): boolean {
  if (method !== 'GET' || headers.upgrade?.toLowerCase() !== 'websocket') return false;
  const [path = ''] = url.split('?', 1);
  return paths.some(({ pattern }) => pattern.test(path));
}

function decoded(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? '');
  } catch {
    return '';
  }
}

/** @throws Svc3Error Invalid or BadRequest that names path, query or header */
export function readStreamRequest(request: IncomingMessage): StreamRequest {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'https://localhost');
  for (const { kind, pattern } of paths) {
    const match = pattern.exec(pathname);
    if (match === null) continue;
    const given = { namespace: decoded(match[1]), vm: decoded(match[2]) };
    const params = validate(vmParams, given, 'path', () => undefined);
    const query = validate(tunnelQuery, Object.fromEntries(searchParams), 'query', () => undefined);
    requireHandshake(request);
    return { kind, isOfPage: pathname.startsWith('/ui/'), params, query };
  }
  throw new Svc3Error('NotFound', 'the server could not find the requested resource');
}

/** What RFC 6455, 4.2.1 wants of a client: checked before the runner is bothered. */
function requireHandshake({ headers }: IncomingMessage): void {
  const { 'sec-websocket-key': key, 'sec-websocket-version': version } = headers;
  if (key === undefined || !/^[+/0-9A-Za-z]{22}==$/.test(key))
    throw badHeader('Sec-WebSocket-Key', 'must be 16 bytes in base64');
  if (version !== '13') throw badHeader('Sec-WebSocket-Version', 'must be 13');
  for (const [field, value] of Object.entries({
    'Content-Length': headers['content-length'],
    'Transfer-Encoding': headers['transfer-encoding'],
  }))
    if (value !== undefined && value !== '0') throw badHeader(field, 'a WebSocket begins without a body');
}

function badHeader(field: string, message: string): Svc3Error {
  return new Svc3Error('BadRequest', `${field}: ${message}`, { details: { causes: [{ field, message }] } });
}
