import type { Config, ConfigStore } from '../config.ts';
import { isRenewalDue } from '../tokencache.ts';
import { createRenewedToken, type TokenOfLogin } from '../renewedtoken.ts';

/** The kubeconfig and its context whose account a saved token is of. */
export interface Login {
  readonly kubeconfig: string;
  readonly context?: string;
}

/** What the renewal of such a token needs of its program. */
export interface LoginRenewal {
  readonly config: ConfigStore;
  now(): Date;
  /** A new token of the account that belongs to a kubeconfig. */
  issue(login: Login): Promise<string>;
}

/** Undefined for a token that came without a kubeconfig. */
export function loginOf({ loginKubeconfig, loginContext }: Config): Login | undefined {
  if (loginKubeconfig === undefined) return undefined;
  return { kubeconfig: loginKubeconfig, ...(loginContext === undefined ? {} : { context: loginContext }) };
}

/**
 * The token that `svc3 login` has saved, each time it is asked for, renewed and kept before it ends where it has a kubeconfig.
 * @throws Svc3Error Unauthorized where it has ended and cannot be renewed
 */
export function createLoginToken(saved: Config, renewal: LoginRenewal): TokenOfLogin {
  const { baseUrl = '' } = saved;
  const login = loginOf(saved);
  if (login === undefined) return createGivenToken(saved, renewal);
  return createRenewedToken(saved, {
    now: () => renewal.now(),
    renew: (held) => renewed(held, login, renewal),
    remedy: `svc3 login ${baseUrl}`,
  });
}

/** A token that somebody gave is nobody's to renew; once it ends soon or was refused, whatever the same API has been given since is taken. */
function createGivenToken(
  saved: Config,
  { config, now }: Pick<LoginRenewal, 'config' | 'now'>,
): TokenOfLogin {
  let { token = '' } = saved;
  return async (refused) => {
    if (refused !== token && !isRenewalDue(token, now().getTime())) return token;
    const kept = await config.read();
    if (kept.baseUrl === saved.baseUrl && kept.token !== undefined) token = kept.token;
    return token;
  };
}

/** Another process may have renewed it already, or the user may be logged in elsewhere by now: theirs is not overwritten. */
async function renewed(held: Config, login: Login, { config, now, issue }: LoginRenewal): Promise<Config> {
  const kept = await config.read();
  const isOther = kept.token !== held.token && !isRenewalDue(kept.token ?? '', now().getTime());
  if (isSameLogin(held, kept) && isOther) return kept;
  // Before the configuration is locked: a kubeconfig may start programs that write it, too.
  const token = await issue(login);
  const { loginKubeconfig, loginContext } = held;
  await config.update((present) =>
    Promise.resolve(isSameLogin(held, present) ? { token, loginKubeconfig, loginContext } : {}),
  );
  return { ...held, token };
}

function isSameLogin(held: Config, present: Config): boolean {
  return (['baseUrl', 'loginKubeconfig', 'loginContext'] as const).every((key) => held[key] === present[key]);
}
