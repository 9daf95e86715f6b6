import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Vm } from '../../api/vm.ts';
import { createUses } from '../../runnerapi/uses.ts';
import { Svc3Error } from '../../errors.ts';
import type { Authenticator } from '../auth/auth.ts';
import { consoleCookieName, cookieFor, cookieValue, isSameOrigin } from '../auth/cookie.ts';
import { createDelegatedAuthorizer } from '../auth/delegated.ts';
import { findVmFor } from '../call/lookup.ts';
import { attributesOf } from '../auth/permission.ts';
import type { UserInfo } from '../../api/core.ts';
import type { Caller, FindPageCaller } from '../call/caller.ts';
import { requireConsole, ticketSeconds, type TicketClaims } from '../routes/console.ts';
import type { Services } from '../call/services.ts';
import { permissionOf, type StreamRequest } from './streamrequest.ts';

export interface Admitted {
  readonly vm: Vm;
  /** Stands for the identity in limits. */
  readonly key: string;
  /** Of the ticket or the session. */
  readonly claims?: Partial<TicketClaims>;
  /** Whose stream it is. */
  readonly user: UserInfo;
  /** When it is over, in milliseconds since 1970, where that is known. */
  readonly endsAt?: number;
  /** What the runner takes once, whichever replica brings it: stands for the ticket and tells nothing of it. */
  readonly once?: string;
  /** The ticket is as good as before: the stream was not opened. */
  giveBack(): void;
  /**
   * Asks for the right again.
   * @throws Svc3Error Unauthorized, Forbidden when it is over
   */
  confirm(): Promise<void>;
}

export interface StreamAdmission {
  /** @throws Svc3Error Unauthorized, Forbidden, NotFound */
  admit(request: IncomingMessage, asked: StreamRequest): Promise<Admitted>;
  /** The cookie with which the console page that got the stream may have it again, without a new ticket; the web page gets none. */
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

/** Who may open a stream: a ticket (once), the cookie of a page that has had it, a session of the web page, or a bearer token. */
export function createStreamAdmission(
  services: Services,
  authenticator: Authenticator,
  findPageCaller: FindPageCaller,
): StreamAdmission {
  return new Admission(services, authenticator, findPageCaller);
}

class Admission implements StreamAdmission {
  readonly #services: Services;
  readonly #authenticator: Authenticator;
  readonly #findPageCaller: FindPageCaller;
  readonly #userNamed: (user: UserInfo) => Caller;
  readonly #uses = createUses(2 * ticketSeconds * 1000);

  constructor(services: Services, authenticator: Authenticator, findPageCaller: FindPageCaller) {
    this.#services = services;
    this.#authenticator = authenticator;
    this.#findPageCaller = findPageCaller;
    this.#userNamed = createDelegatedAuthorizer(services.client, services.caches.accounts);
  }

  async admit(request: IncomingMessage, asked: StreamRequest): Promise<Admitted> {
    const { authorization, cookie } = request.headers;
    const address = request.socket.remoteAddress ?? '';
    if (asked.isOfPage) {
      const { method = 'GET', headers } = request;
      return this.#asCaller(asked, () => this.#findPageCaller({ method, headers, ip: address }));
    }
    const isPage = asked.kind === 'vnc' && authorization === undefined;
    const session = isPage ? cookieValue(cookie, consoleCookieName) : undefined;
    if (asked.query.ticket !== undefined) return this.#withTicket(asked.query.ticket, asked);
    if (session !== undefined) return this.#withCookie(request, session, asked);
    return this.#asCaller(asked, () => this.#authenticator.caller(authorization, address));
  }

  reconnectCookie(claims: Partial<TicketClaims>, url: string): string | undefined {
    const { user, until, stream, isOfPage } = claims;
    // Signing out of the web page takes its session, and would not take this.
    if (isOfPage === true) return undefined;
    // The cookie of a session stays as it is: it ends when the token does that opened it, however often the page comes back.
    if (user === undefined || until === undefined || stream === 'reconnect') return undefined;
    const session = this.#services.tickets.sign({ ...claims, stream: 'reconnect', exp: until });
    const seconds = Math.max(0, until - Math.floor(Date.now() / 1000));
    return cookieFor(consoleCookieName, session, new URL(url, 'https://localhost').pathname, seconds);
  }

  async #withTicket(ticket: string, asked: StreamRequest): Promise<Admitted> {
    const claims = this.#claimsOf(ticket);
    if (claims === undefined) throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not valid');
    const vm = await this.#vmOf(asked);
    if (!isFor(claims, asked.kind, asked, vm))
      throw new Svc3Error('Unauthorized', 'Unauthorized: the ticket is not for this stream, or too old');
    const once = createHash('sha256').update(ticket).digest('base64url');
    if (!this.#uses.take(once)) throw usedTicket();
    const giveBack = (): void => this.#uses.giveBack(once);
    try {
      return await this.#bySession(vm, claims, asked, { once, giveBack });
    } catch (error) {
      giveBack();
      throw error;
    }
  }

  /** The page connects again: no ticket any more, but its account is looked at and its right asked for anew. */
  async #withCookie(request: IncomingMessage, cookie: string, asked: StreamRequest): Promise<Admitted> {
    const over = new Svc3Error('Unauthorized', 'Unauthorized: this session is over; ask for a new ticket');
    const claims = this.#claimsOf(cookie);
    // Sessions of earlier versions were renewed without end.
    if (claims?.user === undefined || claims.until === undefined) throw over;
    const vm = await this.#vmOf(asked);
    const { apiDomain } = this.#services.settings;
    if (!isFor(claims, 'reconnect', asked, vm) || !isSameOrigin(request.headers, apiDomain)) throw over;
    return this.#bySession(vm, claims, asked, { giveBack: nothingToGiveBack });
  }

  /** @param find - asked again for as long as the stream is open: a token and a session end */
  async #asCaller(asked: StreamRequest, find: () => Caller | Promise<Caller>): Promise<Admitted> {
    const caller = await find();
    await authorize(caller, asked, false);
    const { key, expiresAt } = caller;
    return {
      vm: await this.#vmOf(asked),
      key,
      user: await caller.user(),
      ...(expiresAt === undefined ? {} : { endsAt: expiresAt }),
      giveBack: nothingToGiveBack,
      confirm: async () => authorize(await find(), asked, true),
    };
  }

  /**
   * What a ticket or a session lets in: its user is known by name, so that the account is looked at too. A ticket that names no
   * user, or no end, was signed by a replica of an earlier version a minute ago.
   */
  async #bySession(
    vm: Vm,
    claims: Partial<TicketClaims>,
    asked: StreamRequest,
    ticket: Pick<Admitted, 'once' | 'giveBack'>,
  ): Promise<Admitted> {
    const { user, until } = claims;
    const confirm = async (isFresh: boolean): Promise<void> => {
      if (user === undefined) return;
      await this.#services.caches.accounts.confirm(user);
      await authorize(this.#userNamed(user), asked, isFresh);
    };
    await confirm(false);
    const { namespace, name } = vm.metadata;
    return {
      ...ticket,
      vm,
      key: `${namespace}/${name}`,
      claims,
      user: user ?? {},
      ...(until === undefined ? {} : { endsAt: until * 1000 }),
      confirm: () => confirm(true),
    };
  }

  #claimsOf(text: string): Partial<TicketClaims> | undefined {
    return this.#services.tickets.verify(text);
  }

  #vmOf({ kind, params }: StreamRequest): Promise<Vm> {
    const refuse = kind === 'vnc' ? requireConsole : () => undefined;
    return findVmFor(this.#services, { namespace: params.namespace, name: params.vm }, refuse);
  }
}

async function authorize(caller: Caller, asked: StreamRequest, isFresh: boolean): Promise<void> {
  const attributes = attributesOf(permissionOf(asked), asked.params);
  if (attributes !== undefined) await caller.authorize(attributes, isFresh);
}
