import { ApiError, call } from './api.ts';

/** Who is signed in, as `/ui/session` says it. */
export interface Session {
  readonly user: string;
  readonly expirationTimestamp?: string;
  readonly version: string;
  readonly defaultNamespace: string;
}

/** Where the page looks, as `/ui/namespaces` says it. */
export interface Namespaces {
  readonly items: readonly string[];
  readonly all: boolean;
}

/** What views share. */
export interface Shared {
  readonly session: Session;
  readonly namespaces: Namespaces;
  /** The chosen one; '': all. */
  readonly namespace: string;
  /** Where new things go: the chosen namespace, else the first. */
  readonly target: string;
}

/** What a sign-in takes: a token, or a code of `svc3 ui`. */
export type Credential =
  | { readonly token: FormDataEntryValue | null }
  | { readonly code: string; readonly changesUser?: boolean };

/** All tabs of a browser have one cookie: who signs in or out in one of them does so in all. */
const tabs = new BroadcastChannel('svc3-session');

/** What one tab tells the others. */
interface Change {
  /** Undefined: nobody is signed in any more. */
  readonly user?: string;
}

function tell(change: Change): void {
  tabs.postMessage(change);
}

/**
 * Signs this browser in, and tells its other tabs.
 *
 * @throws ApiError
 */
export async function beginSession(credential: Credential): Promise<Session> {
  const { body } = await call<Session>('POST', '/ui/session', credential);
  tell({ user: body.user });
  return body;
}

/** @throws ApiError 401 where nobody is signed in */
export async function showSession(): Promise<Session> {
  return (await call<Session>('GET', '/ui/session')).body;
}

/**
 * Makes the browser forget the session, and tells its other tabs; nothing else can, since no script reads the cookie.
 *
 * @throws ApiError where the session may be there still
 */
export async function endSession(): Promise<void> {
  try {
    await call('DELETE', '/ui/session');
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 401)) throw error;
  }
  tell({});
}

/**
 * Whether the session still holds; a server that does not answer says nothing of it. Where it is somebody else's, the page begins anew: what it
 * shows is not for them, and what it does would be done by them.
 *
 * @param user - whom the page shows
 */
export async function isStillSignedIn(user: string): Promise<boolean> {
  try {
    const isSame = (await showSession()).user === user;
    if (!isSame) location.reload();
    return isSame;
  } catch (error) {
    return !(error instanceof ApiError && error.status === 401);
  }
}

/**
 * Begins the page anew where another tab has signed in as somebody else, or out, until the returned function is called. A tab that was told
 * nothing, since it slept, looks when it is seen again.
 *
 * @param user - whom the page shows; undefined: nobody
 */
export function followTabs(user: string | undefined): () => void {
  const hear = ({ data }: MessageEvent<Change>): void => {
    if (data.user !== user) location.reload();
  };
  const look = (): void => {
    if (user !== undefined && !document.hidden) void isStillSignedIn(user);
  };
  tabs.addEventListener('message', hear);
  document.addEventListener('visibilitychange', look);
  return () => {
    tabs.removeEventListener('message', hear);
    document.removeEventListener('visibilitychange', look);
  };
}
