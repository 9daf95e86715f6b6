import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { createWebSocketStream, WebSocketServer } from 'ws';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import type { Authenticator } from './auth.ts';
import { consoleCookie, cookieValue, isSameOrigin } from './cookie.ts';
import { createDelegatedAuthorizer } from './delegated.ts';
import { validate } from './fields.ts';
import type { ConcurrencyLimit } from './limits.ts';
import { findVm } from './lookup.ts';
import { attributesOf } from './pipeline.ts';
import {
  consoleSessionSeconds,
  requireConsole,
  streamConsole,
  streamTunnel,
  type TicketClaims,
} from './routes/console.ts';
import { tunnelQuery, vmParams } from './schemas.ts';
import type { Services } from './services.ts';
import { failure, refusalFrom } from './status.ts';

export interface StreamOptions {
  readonly services: Services;
  readonly authenticator: Authenticator;
  readonly limit: ConcurrencyLimit;
  readonly drain: AbortSignal;
}

interface Wish {
  readonly kind: 'vnc' | 'tunnel';
  readonly params: { readonly namespace: string; readonly vm: string };
  readonly query: { readonly port?: number | undefined; readonly ticket?: string | undefined };
}

interface Admitted {
  readonly vm: Vm;
  /** Stands for the identity in limits. */
  readonly key: string;
  /** Of the ticket or the session. */
  readonly claims?: Partial<TicketClaims>;
}

const paths = [
  {
    kind: 'vnc',
    route: streamConsole,
    pattern: /^\/api\/v1\/namespaces\/([^/]+)\/vms\/([^/]+)\/console\/stream\/?$/,
  },
  {
    kind: 'tunnel',
    route: streamTunnel,
    pattern: /^\/api\/v1\/namespaces\/([^/]+)\/vms\/([^/]+)\/tunnel\/?$/,
  },
] as const;

function decoded(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? '');
  } catch {
    return '';
  }
}

function wishOf(url: string): Wish {
  const { pathname, searchParams } = new URL(url, 'https://localhost');
  for (const { kind, pattern } of paths) {
    const match = pattern.exec(pathname);
    if (match === null) continue;
    const params = validate(
      vmParams,
      { namespace: decoded(match[1]), vm: decoded(match[2]) },
      'path',
      () => undefined,
    );
    const query = validate(tunnelQuery, Object.fromEntries(searchParams), 'query', () => undefined);
    return { kind, params, query };
  }
  throw new Svc3Error('NotFound', 'the server could not find the requested resource');
}

function keyOf({ params }: Wish): { namespace: string; name: string } {
  return { namespace: params.namespace, name: params.vm };
}

function isFor(claims: Partial<TicketClaims>, kind: TicketClaims['stream'], wish: Wish, vm: Vm): boolean {
  const { stream, namespace, vm: name, uid, exp } = claims;
  return (
    stream === kind &&
    namespace === wish.params.namespace &&
    name === wish.params.vm &&
    uid === vm.metadata.uid &&
    typeof exp === 'number' &&
    exp * 1000 > Date.now()
  );
}

/** Takes the WebSocket routes of the server: checks ticket or token, opens the stream of the runner, joins both. */
export function createStreams(
  options: StreamOptions,
): (request: IncomingMessage, socket: Duplex, head: Buffer) => void {
  const { services, authenticator, limit, drain } = options;
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: 16 * 1024 * 1024,
  });
  const usedTickets = new Map<string, number>();
  const users = createDelegatedAuthorizer(services.client);
  const cookies = new WeakMap<IncomingMessage, string>();
  sockets.on('headers', (headers, request) => {
    const cookie = cookies.get(request);
    if (cookie !== undefined) headers.push(`Set-Cookie: ${cookie}`);
  });

  function useTicket(ticket: string): void {
    const now = Date.now();
    for (const [used, endsAt] of usedTickets) if (endsAt < now) usedTickets.delete(used);
    if (usedTickets.has(ticket))
      throw new Svc3Error('Unauthorized', 'Unauthorized: this ticket has been used');
    usedTickets.set(ticket, now + 120_000);
  }

  /** The cookie with which the page that got the stream may have it again, without a new ticket. */
  function reconnectCookie(claims: Partial<TicketClaims>, url: string): string | undefined {
    if (claims.user === undefined) return undefined;
    const exp = Math.floor(Date.now() / 1000) + consoleSessionSeconds;
    const ticket = services.tickets.sign({ ...claims, stream: 'reconnect', exp });
    return consoleCookie(ticket, new URL(url, 'https://localhost').pathname, consoleSessionSeconds);
  }

  async function withTicket(ticket: string, wish: Wish): Promise<Admitted> {
    const claims = services.tickets.verify(ticket) as Partial<TicketClaims> | undefined;
    if (claims === undefined) throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not valid');
    const vm = await findVm(services, keyOf(wish));
    if (!isFor(claims, wish.kind, wish, vm))
      throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not for this stream, or too old');
    useTicket(ticket);
    return { vm, key: `${vm.metadata.namespace}/${vm.metadata.name}`, claims };
  }

  /** The page connects again: no ticket any more, but its right is asked for anew. */
  async function withCookie(request: IncomingMessage, cookie: string, wish: Wish): Promise<Admitted> {
    const over = new Svc3Error('Unauthorized', 'Unauthorized: this session is over; ask for a new ticket');
    const claims = services.tickets.verify(cookie) as Partial<TicketClaims> | undefined;
    if (claims?.user === undefined) throw over;
    const vm = await findVm(services, keyOf(wish));
    if (!isFor(claims, 'reconnect', wish, vm) || !isSameOrigin(request.headers)) throw over;
    const attributes = attributesOf(streamConsole.permission, wish.params);
    if (attributes !== undefined) await users(claims.user).authorize(attributes);
    return { vm, key: `${vm.metadata.namespace}/${vm.metadata.name}`, claims };
  }

  async function admit(request: IncomingMessage, wish: Wish): Promise<Admitted> {
    const { ticket } = wish.query;
    const { authorization, cookie } = request.headers;
    const session = wish.kind === 'vnc' && authorization === undefined ? cookieValue(cookie) : undefined;
    if (ticket !== undefined) return withTicket(ticket, wish);
    if (session !== undefined) return withCookie(request, session, wish);
    const caller = authenticator.caller(authorization);
    const attributes = attributesOf(
      (wish.kind === 'vnc' ? streamConsole : streamTunnel).permission,
      wish.params,
    );
    if (attributes !== undefined) await caller.authorize(attributes);
    return { vm: await findVm(services, keyOf(wish)), key: caller.key };
  }

  /** Whoever's runner could not be reached keeps the ticket. */
  async function openRunner(vm: Vm, wish: Wish): Promise<Duplex> {
    try {
      if (wish.kind === 'tunnel') return await services.runners.openTunnel(vm, wish.query.port ?? 22);
      requireConsole(vm);
      return await services.runners.openVnc(vm);
    } catch (error) {
      if (wish.query.ticket !== undefined) usedTickets.delete(wish.query.ticket);
      throw error;
    }
  }

  async function open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (drain.aborted) throw new Svc3Error('ServiceUnavailable', 'this server is going away, try again');
    const wish = wishOf(request.url ?? '/');
    const { vm, key, claims } = await admit(request, wish);
    const release = limit.take(key);
    socket.once('close', release);
    const runner = await openRunner(vm, wish);
    if (socket.destroyed) {
      runner.destroy();
      return;
    }
    const cookie = claims === undefined ? undefined : reconnectCookie(claims, request.url ?? '/');
    if (cookie !== undefined) cookies.set(request, cookie);
    sockets.handleUpgrade(request, socket, head, (ws) => {
      const stream = createWebSocketStream(ws, { allowHalfOpen: false });
      pipeline(stream, runner, () => stream.destroy());
      pipeline(runner, stream, () => ws.close());
      ws.on('error', () => runner.destroy());
    });
  }

  return (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    open(request, socket, head).catch((error: unknown) => {
      const refusal = refusalFrom(error);
      const body = JSON.stringify(failure(refusal));
      socket.end(
        `HTTP/1.1 ${refusal.status} ${refusal.reason}\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
      );
    });
  };
}
