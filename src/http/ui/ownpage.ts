import { Svc3Error } from '../../errors.ts';
import { isSameOrigin } from '../auth/cookie.ts';

/** A header of the request, by its name in lower case. */
type Headers = (name: string) => string | undefined;

const safeMethods = new Set(['GET', 'HEAD']);

/**
 * Refuses what another site made the browser send. What changes something has to say that it comes of this origin (`Origin`); what only
 * reads has to say so too, or `Sec-Fetch-Site`, which no page can write.
 *
 * @param apiDomain - the name under which the API is reached, where a proxy in front of it writes another `Host`
 * @throws Svc3Error Forbidden
 */
export function requireOwnPage(method: string, header: Headers, apiDomain: string): void {
  const site = header('sec-fetch-site');
  const origin = header('origin');
  const isOwn = isSameOrigin({ origin, host: header('host') ?? header(':authority') }, apiDomain);
  const isSaid = safeMethods.has(method) && origin === undefined ? site === 'same-origin' : isOwn;
  if (isSaid && (site === undefined || site === 'same-origin')) return;
  throw new Svc3Error(
    'Forbidden',
    'this is for the page of this server only: the request comes of elsewhere',
  );
}
