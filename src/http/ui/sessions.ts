import { randomUUID } from 'node:crypto';
import { Svc3Error, invalidField } from '../../errors.ts';
import { unauthorized } from '../auth/auth.ts';
import { cookieFor, cookieValue } from '../auth/cookie.ts';
import type { Sealer } from '../call/services.ts';

/** A code of `svc3 ui` is good for so many seconds, once. */
export const codeSeconds = 60;
/** The longest session of a token that does not say when it ends, in seconds. */
const sessionSeconds = 12 * 3600;
const path = '/ui';

interface Sealed {
  readonly token: string;
  /** Seconds since 1970. */
  readonly exp: number;
  /** Of a code. */
  readonly id?: string;
}

/** A code of `svc3 ui`, opened. */
export interface Code {
  readonly id: string;
  readonly token: string;
}

/** Sessions of the page: the token itself, sealed, so that every replica can read it and none has to remember it. */
export interface Sessions {
  /** The token of a request's `Cookie`; undefined where there is no session, or it is over. */
  tokenOf(cookie: string | undefined): string | undefined;
  /**
   * `Set-Cookie` of a session that ends with its token.
   * @param endsAt - of the token, in milliseconds since 1970
   * @throws Svc3Error Invalid for a token that is too large for a cookie, Unauthorized for one that has ended
   */
  begin(token: string, endsAt: number | undefined): string;
  /** `Set-Cookie` that forgets the session. */
  end(): string;
  /** @returns the code, and when it ends, in seconds since 1970 */
  codeOf(token: string, endsAt: number | undefined): { readonly code: string; readonly exp: number };
  /** @throws Svc3Error Unauthorized for what is no code of this installation, or too old */
  openCode(code: string): Code;
}

/**
 * @param seals - seals and opens with the installation's key, which all replicas have
 * @param now - milliseconds since 1970
 */
export function createSessions(seals: Sealer, now: () => number = Date.now): Sessions {
  const seconds = (): number => Math.floor(now() / 1000);
  // Cookies know no ports: two installations on one host have names of their own.
  const name = (): string => `__Secure-svc3-ui-${seals.keyId}`;
  const endOf = (endsAt: number | undefined, longest: number): number =>
    Math.min(seconds() + longest, Math.floor((endsAt ?? Infinity) / 1000));

  function open(purpose: 'session' | 'code', text: string): Sealed | undefined {
    const sealed = seals.open(purpose, text) as Sealed | undefined;
    return sealed !== undefined && sealed.exp > seconds() ? sealed : undefined;
  }

  return {
    tokenOf(cookie) {
      const value = cookieValue(cookie, name());
      return value === undefined ? undefined : open('session', value)?.token;
    },
    begin(token, endsAt) {
      const exp = endOf(endsAt, endsAt === undefined ? sessionSeconds : Infinity);
      // Who was known a moment ago is remembered for longer, and kube-apiserver takes the token for a minute more.
      if (exp <= seconds()) throw unauthorized('the token has ended');
      const value = seals.seal('session', { token, exp });
      const cookie = cookieFor(name(), value, path, exp - seconds());
      if (cookie === undefined) throw invalidField('token', 'is too large for a cookie of a browser');
      return cookie;
    },
    end() {
      const cookie = cookieFor(name(), '', path, 0);
      if (cookie === undefined) throw new Svc3Error('InternalError', 'an empty cookie is too large');
      return cookie;
    },
    codeOf(token, endsAt) {
      const exp = endOf(endsAt, codeSeconds);
      return { code: seals.seal('code', { token, exp, id: randomUUID() }), exp };
    },
    openCode(code) {
      const { token, id } = open('code', code) ?? {};
      if (token === undefined || id === undefined)
        throw unauthorized('the code is not valid, or older than a minute; ask for a new one: svc3 ui');
      return { token, id };
    },
  };
}
