import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { createWebSocketStream, WebSocketServer } from 'ws';
import type { Vm } from '../api/vm.ts';
import { Svc3Error } from '../errors.ts';
import type { Authenticator } from './auth.ts';
import { validate } from './fields.ts';
import type { ConcurrencyLimit } from './limits.ts';
import { findVm } from './lookup.ts';
import { attributesOf } from './pipeline.ts';
import { streamConsole, streamTunnel, type TicketClaims } from './routes/console.ts';
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

function isFor(claims: Readonly<Record<string, unknown>> | undefined, wish: Wish, vm: Vm): boolean {
  const { stream, namespace, vm: name, uid, exp } = (claims ?? {}) as Partial<TicketClaims>;
  return (
    stream === wish.kind &&
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

  function useTicket(ticket: string): void {
    const now = Date.now();
    for (const [used, endsAt] of usedTickets) if (endsAt < now) usedTickets.delete(used);
    if (usedTickets.has(ticket))
      throw new Svc3Error('Unauthorized', 'Unauthorized: this ticket has been used');
    usedTickets.set(ticket, now + 120_000);
  }

  async function admit(request: IncomingMessage, wish: Wish): Promise<{ vm: Vm; key: string }> {
    const key = { namespace: wish.params.namespace, name: wish.params.vm };
    if (wish.query.ticket !== undefined) {
      const claims = services.tickets.verify(wish.query.ticket);
      if (claims === undefined) throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not valid');
      const vm = await findVm(services, key);
      if (!isFor(claims, wish, vm))
        throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not for this stream, or too old');
      useTicket(wish.query.ticket);
      return { vm, key: `${key.namespace}/${key.name}` };
    }
    const caller = authenticator.caller(request.headers.authorization);
    const attributes = attributesOf(
      (wish.kind === 'vnc' ? streamConsole : streamTunnel).permission,
      wish.params,
    );
    if (attributes !== undefined) await caller.authorize(attributes);
    return { vm: await findVm(services, key), key: caller.key };
  }

  async function open(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    if (drain.aborted) throw new Svc3Error('ServiceUnavailable', 'this server is going away, try again');
    const wish = wishOf(request.url ?? '/');
    const { vm, key } = await admit(request, wish);
    const release = limit.take(key);
    socket.once('close', release);
    const runner =
      wish.kind === 'vnc'
        ? await services.runners.openVnc(vm)
        : await services.runners.openTunnel(vm, wish.query.port ?? 22);
    if (socket.destroyed) {
      runner.destroy();
      return;
    }
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
