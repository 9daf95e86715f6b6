import { isPassing, isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import type { Config } from './config.ts';
import { endOf, isRenewalDue } from './tokencache.ts';

/** How the token of a login is renewed. */
export interface Renewal {
  now(): Date;
  /** The login with a token that is good for a while, and not the one that is held. */
  renew(held: Config): Promise<Config>;
  /** What its user is to do where that cannot be. */
  readonly remedy: string;
}

/** After a renewal has failed, while the old token is still good. */
const retryAfterMs = 60_000;

/** A token, each time it is asked for; with one that was refused, another one where there is one. */
export type TokenOfLogin = (refused?: string) => Promise<string>;

/**
 * The token of a login, each time it is asked for, renewed before it ends (a watch may outlive many) or once it was refused. Whoever
 * asks while it is being renewed waits for the same renewal.
 * @throws Svc3Error Unauthorized where it has ended and cannot be renewed; where whoever renews it is away for a moment, that
 */
export function createRenewedToken(saved: Config, { now, renew, remedy }: Renewal): TokenOfLogin {
  let held = saved;
  let running: Promise<Config> | undefined;
  let quietUntilMs = 0;
  const renewedOnce = () =>
    (running ??= renew(held).finally(() => {
      running = undefined;
    }));
  return async (refused) => {
    const { token = '' } = held;
    const nowMs = now().getTime();
    const isWanted = refused === token || isRenewalDue(token, nowMs);
    if (nowMs < quietUntilMs || !isWanted) return token;
    try {
      held = await renewedOnce();
      return held.token ?? token;
    } catch (cause) {
      quietUntilMs = Math.min(nowMs + retryAfterMs, endOf(token));
      if (endOf(token) > nowMs) return token;
      const message = `the login has ended and cannot be renewed: ${messageOf(cause)}; ${remedy}`;
      const reason = isSvc3Error(cause) && isPassing(cause) ? cause.reason : 'Unauthorized';
      throw new Svc3Error(reason, message, { cause });
    }
  };
}
