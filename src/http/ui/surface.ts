import { unauthorized, type Authenticator } from '../auth/auth.ts';
import { statusRefusal, type ApiSurface } from '../call/apisurface.ts';
import type { FindPageCaller } from '../call/caller.ts';
import type { HttpSettings } from '../call/services.ts';
import { requireOwnPage } from './ownpage.ts';
import type { Sessions } from './sessions.ts';

export function createFindPageCaller(
  authenticator: Authenticator,
  sessions: Sessions,
  { apiDomain }: Pick<HttpSettings, 'apiDomain'>,
): FindPageCaller {
  return ({ method, headers, ip }) => {
    const header = (name: string): string | undefined => [headers[name]].flat().at(-1);
    requireOwnPage(method, header, apiDomain);
    const token = sessions.tokenOf(headers.cookie);
    if (token === undefined) throw unauthorized('there is no session, or it is over; sign in');
    return authenticator.caller(`Bearer ${token}`, ip);
  };
}

/** What the page calls. */
export function createUiSurface(caller: FindPageCaller): ApiSurface {
  return { name: 'ui', caller, refusal: statusRefusal };
}
