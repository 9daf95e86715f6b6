import type { IncomingHttpHeaders } from 'node:http';

/** Of the console's stream. */
export const consoleCookieName = '__Secure-svc3-console';

/**
 * Value of `Set-Cookie`; the browser sends the cookie to this path and those below it only. Scripts cannot read it, and no page of
 * another site makes the browser send it. Undefined where browsers would drop it.
 */
export function cookieFor(name: string, value: string, path: string, seconds: number): string | undefined {
  // Browsers drop what is larger than 4096 bytes.
  if (name.length + value.length > 3900) return undefined;
  return `${name}=${value}; Path=${path}; Max-Age=${seconds}; Secure; HttpOnly; SameSite=Strict`;
}

/** What a `Cookie` header says of the name. */
export function cookieValue(header: string | undefined, name: string): string | undefined {
  for (const pair of (header ?? '').split(';')) {
    const [key, value] = pair.trim().split('=', 2);
    if (key === name) return value;
  }
  return undefined;
}

/**
 * Whether the page that asks was served by this server, which speaks TLS only: a page of the same name that came without TLS is whose the
 * network is, and not every browser keeps `SameSite` cookies from it.
 *
 * @param apiDomain - the name under which the API is reached, where a proxy in front of it writes another `Host`
 */
export function isSameOrigin(
  { origin = '', host }: Pick<IncomingHttpHeaders, 'origin' | 'host'>,
  apiDomain: string,
): boolean {
  const asking = URL.parse(origin);
  return asking?.protocol === 'https:' && [host, apiDomain].includes(asking.host);
}
