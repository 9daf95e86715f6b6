import { Svc3Error } from '../../errors.ts';
import type { Config, ConfigChange, ConfigStore } from '../config.ts';
import { createRenewedToken, type TokenOfLogin } from '../renewedtoken.ts';
import { isRenewalDue } from '../tokencache.ts';
import type { Issuer } from './issuer.ts';
import { renewTokens } from './login.ts';

/** What a renewal needs of its program. */
export interface Renewal {
  readonly config: ConfigStore;
  now(): Date;
  openIssuer(caFile: string | undefined): Promise<Issuer>;
}

/**
 * The token of a login at an OpenID issuer, each time it is asked for, renewed and kept before it ends.
 * @throws Svc3Error Unauthorized where it has ended and cannot be renewed
 */
export function createOidcToken(saved: Config, renewal: Renewal): TokenOfLogin {
  return createRenewedToken(saved, {
    now: () => renewal.now(),
    renew: (held) => renewed(held, renewal),
    remedy: `run svc3 login again: svc3 login ${saved.baseUrl ?? ''} --oidc`,
  });
}

/** The configuration with a token that is good for a while: another process may have got it while this one waited. */
function renewed(held: Config, renewal: Renewal): Promise<Config> {
  return renewal.config.update(async (present) => {
    if (!isSameLogin(held, present))
      throw new Svc3Error('Conflict', 'another svc3 has changed the login; try again');
    const isDue = isRenewalDue(present.token ?? '', renewal.now().getTime());
    if (present.token !== held.token && !isDue) return {};
    return renewedLogin(present, renewal);
  });
}

async function renewedLogin(login: Config, { openIssuer }: Renewal): Promise<ConfigChange> {
  const { loginIssuer = '', loginIssuerCaFile, loginClient = '', refreshToken } = login;
  if (refreshToken === undefined) throw new Svc3Error('Unauthorized', `${loginIssuer} gave no refresh token`);
  const issuer = await openIssuer(loginIssuerCaFile);
  try {
    const fresh = await renewTokens(issuer, { issuerUrl: loginIssuer, clientId: loginClient }, refreshToken);
    // A refresh token that is not replaced stays good (RFC 6749, 6).
    const next = fresh.refreshToken ?? refreshToken;
    return { token: fresh.idToken, loginIssuer, loginIssuerCaFile, loginClient, refreshToken: next };
  } finally {
    await issuer.close();
  }
}

function isSameLogin(held: Config, present: Config): boolean {
  return (['baseUrl', 'loginIssuer', 'loginClient'] as const).every((key) => held[key] === present[key]);
}
