import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Vm } from '../api/vm.ts';
import { createUses } from '../control/uses.ts';
import { Svc3Error } from '../errors.ts';
import type { Authenticator } from './auth.ts';
import { consoleCookie, cookieValue, isSameOrigin } from './cookie.ts';
import { createDelegatedAuthorizer } from './delegated.ts';
import { findVm } from './lookup.ts';
import { attributesOf } from './permission.ts';
import { consoleSessionSeconds, streamConsole, ticketSeconds, type TicketClaims } from './routes/console.ts';
import type { Services } from './services.ts';
import { permissionOf, type StreamRequest } from './streamrequest.ts';

export interface Admitted {
  readonly vm: Vm;
  /** Stands for the identity in limits. */
  readonly key: string;
  /** Of the ticket or the session. */
  readonly claims?: Partial<TicketClaims>;
  /** What the runner takes once, whichever replica brings it: stands for the ticket and tells nothing of it. */
  readonly once?: string;
  /** The ticket is as good as before: the stream was not opened. */
  giveBack(): void;
}

export interface StreamAdmission {
  /** @throws Svc3Error Unauthorized, Forbidden, NotFound */
  admit(request: IncomingMessage, wish: StreamRequest): Promise<Admitted>;
  /** The cookie with which the page that got the stream may have it again, without a new ticket. */
  reconnectCookie(claims: Partial<TicketClaims>, url: string): string | undefined;
}

const nothingToGiveBack = (): void => undefined;

export function usedTicket(): Svc3Error {
  return new Svc3Error('Unauthorized', 'Unauthorized: this ticket has been used');
}

function isFor(
  claims: Partial<TicketClaims>,
  kind: TicketClaims['stream'],
  { params }: StreamRequest,
  vm: Vm,
): boolean {
  const { stream, namespace, vm: name, uid, exp } = claims;
  return (
    stream === kind &&
    namespace === params.namespace &&
    name === params.vm &&
    uid === vm.metadata.uid &&
    typeof exp === 'number' &&
    exp * 1000 > Date.now()
  );
}

/** Who may open a stream: a ticket (once), the cookie of a page that has had it, or a bearer token. */
export function createStreamAdmission(services: Services, authenticator: Authenticator): StreamAdmission {
  const uses = createUses(2 * ticketSeconds * 1000);
  const users = createDelegatedAuthorizer(services.client);
  const vmOf = ({ params }: StreamRequest) =>
    findVm(services, { namespace: params.namespace, name: params.vm });
  const keyOf = ({ metadata: { namespace, name } }: Vm) => `${namespace}/${name}`;

  async function withTicket(ticket: string, wish: StreamRequest): Promise<Admitted> {
    const claims = services.tickets.verify(ticket) as Partial<TicketClaims> | undefined;
    if (claims === undefined) throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not valid');
    const vm = await vmOf(wish);
    if (!isFor(claims, wish.kind, wish, vm))
      throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not for this stream, or too old');
    const once = createHash('sha256').update(ticket).digest('base64url');
    if (!uses.take(once)) throw usedTicket();
    return { vm, key: keyOf(vm), claims, once, giveBack: () => uses.giveBack(once) };
  }

  /** The page connects again: no ticket any more, but its right is asked for anew. */
  async function withCookie(
    request: IncomingMessage,
    cookie: string,
    wish: StreamRequest,
  ): Promise<Admitted> {
    const over = new Svc3Error('Unauthorized', 'Unauthorized: this session is over; ask for a new ticket');
    const claims = services.tickets.verify(cookie) as Partial<TicketClaims> | undefined;
    if (claims?.user === undefined) throw over;
    const vm = await vmOf(wish);
    if (!isFor(claims, 'reconnect', wish, vm) || !isSameOrigin(request.headers)) throw over;
    const attributes = attributesOf(streamConsole.permission, wish.params);
    if (attributes !== undefined) await users(claims.user).authorize(attributes);
    return { vm, key: keyOf(vm), claims, giveBack: nothingToGiveBack };
  }

  return {
    async admit(request, wish) {
      const { authorization, cookie } = request.headers;
      const session = wish.kind === 'vnc' && authorization === undefined ? cookieValue(cookie) : undefined;
      if (wish.query.ticket !== undefined) return withTicket(wish.query.ticket, wish);
      if (session !== undefined) return withCookie(request, session, wish);
      const caller = authenticator.caller(authorization);
      const attributes = attributesOf(permissionOf(wish), wish.params);
      if (attributes !== undefined) await caller.authorize(attributes);
      return { vm: await vmOf(wish), key: caller.key, giveBack: nothingToGiveBack };
    },
    reconnectCookie(claims, url) {
      if (claims.user === undefined) return undefined;
      const exp = Math.floor(Date.now() / 1000) + consoleSessionSeconds;
      const ticket = services.tickets.sign({ ...claims, stream: 'reconnect', exp });
      return consoleCookie(ticket, new URL(url, 'https://localhost').pathname, consoleSessionSeconds);
    },
  };
}
