import type { IncomingHttpHeaders } from 'node:http';

/** Scripts cannot read it, and no page of another site makes the browser send it. */
const name = '__Secure-svc3-console';

/** Value of `Set-Cookie`; the browser sends the cookie to this path and those below it only. */
export function consoleCookie(value: string, path: string, seconds: number): string | undefined {
  // Browsers drop larger cookies.
  if (value.length > 3800) return undefined;
  return `${name}=${value}; Path=${path}; Max-Age=${seconds}; Secure; HttpOnly; SameSite=Strict`;
}

/** What a `Cookie` header says of the console. */
export function cookieValue(header: string | undefined): string | undefined {
  for (const pair of (header ?? '').split(';')) {
    const [key, value] = pair.trim().split('=', 2);
    if (key === name) return value;
  }
  return undefined;
}

/** Whether the page that asks was served by this server. */
export function isSameOrigin({ origin, host }: IncomingHttpHeaders): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host;
}
