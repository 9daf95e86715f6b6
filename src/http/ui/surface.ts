import type { FastifyRequest } from 'fastify';
import { unauthorized, type Authenticator } from '../auth/auth.ts';
import { statusRefusal, type ApiSurface } from '../server/apisurface.ts';
import type { HttpSettings } from '../server/services.ts';
import { requireOwnPage } from './ownpage.ts';
import type { Sessions } from './sessions.ts';

/** What the page calls: who calls is known by the cookie of its session only, and only from the page itself. */
export function createUiSurface(
  authenticator: Authenticator,
  sessions: Sessions,
  { apiDomain }: Pick<HttpSettings, 'apiDomain'>,
): ApiSurface {
  return {
    name: 'ui',
    caller({ method, headers, ip }: FastifyRequest) {
      const header = (name: string): string | undefined => [headers[name]].flat().at(-1);
      requireOwnPage(method, header, apiDomain);
      const token = sessions.tokenOf(headers.cookie);
      if (token === undefined) throw unauthorized('there is no session, or it is over; sign in');
      return authenticator.caller(`Bearer ${token}`, ip);
    },
    refusal: statusRefusal,
  };
}
