import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Svc3Error } from '../../errors.ts';
import type { HeldBytes } from './bytebudget.ts';
import type { Route } from './route.ts';
import type { Caller } from './caller.ts';

const maxWarnings = 16;

/** What is known of one request besides what Fastify knows. */
export class RequestState {
  readonly startedAt = performance.now();
  /** The route that took it, once one has. */
  route: Route | undefined = undefined;
  surface: string | undefined = undefined;
  caller: Caller | undefined = undefined;
  params: unknown = undefined;
  release: (() => void) | undefined = undefined;
  /** Says that its connection is not in use by it any longer; of a known caller only. */
  leaveConnection: (() => void) | undefined = undefined;
  /** What is held of its body, once it is known whose it is. */
  body: HeldBytes | undefined = undefined;
  /** Whether the reply is over, or the client has hung up: what was taken for the request has been given back. */
  ended = false;
  #warnings: string[] | undefined = undefined;
  #hungUp: AbortController | undefined = undefined;
  #gone = false;

  get warnings(): readonly string[] {
    return this.#warnings ?? [];
  }

  warn(text: string): void {
    this.#warnings ??= [];
    if (this.#warnings.length < maxWarnings && !this.#warnings.includes(text)) this.#warnings.push(text);
  }

  /** Aborted when the client has hung up; made for those who look, since most requests end before anybody does. */
  get hungUp(): AbortSignal {
    if (this.#hungUp === undefined) {
      this.#hungUp = new AbortController();
      if (this.#gone) this.hangUp();
    }
    return this.#hungUp.signal;
  }

  hangUp(): void {
    this.#gone = true;
    // No fault of the server's: nobody is to read of it in the log.
    this.#hungUp?.abort(new Svc3Error('BadRequest', 'the client hung up'));
  }
}

const key = Symbol('state');

type Stated = FastifyRequest & { [key]?: RequestState | undefined };

/** Before the first request: gives every request a place for its state. */
export function installRequestStates(app: FastifyInstance): void {
  app.decorateRequest(key as never, undefined as never);
}

export function beginState(request: FastifyRequest): RequestState {
  const state = new RequestState();
  (request as Stated)[key] = state;
  return state;
}

/** Undefined only before `beginState`. */
export function findState(request: FastifyRequest): RequestState | undefined {
  return (request as Stated)[key];
}

export function stateOf(request: FastifyRequest): RequestState {
  const state = findState(request);
  if (state === undefined) throw new Error('the request was not begun');
  return state;
}
