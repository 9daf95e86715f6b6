import type { ErrorReason, FieldCause } from '../../../errors.ts';

/** A refusal of the server, in its words. */
export class ApiError extends Error {
  readonly status: number;
  /** Undefined where it is not the server that refuses. */
  readonly reason: ErrorReason | undefined;
  readonly causes: readonly FieldCause[];

  constructor(status: number, message: string, { reason, details }: StatusBody = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.causes = details?.causes ?? [];
  }
}

interface StatusBody {
  readonly message?: string;
  readonly reason?: ErrorReason;
  readonly details?: { readonly causes?: readonly FieldCause[] };
}

/** The refusal in a reply's text; a proxy may have written it. */
export function refusalIn(status: number, text: string): ApiError {
  try {
    const body = JSON.parse(text) as StatusBody;
    return new ApiError(status, body.message ?? `HTTP ${status}`, body);
  } catch {
    return new ApiError(status, `the server answered with HTTP ${status}`);
  }
}

/** Whether the caller lacks the right: asking again changes nothing. */
export function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

let onSignedOut: (message: string) => void = () => undefined;

/** Told when a call finds that the session is over. */
export function whenSignedOut(listener: (message: string) => void): void {
  onSignedOut = listener;
}

export interface Answer<T> {
  readonly status: number;
  readonly body: T;
  /** Texts of `Warning` headers. */
  readonly warnings: readonly string[];
}

function warningsIn(header: string | null): string[] {
  return [...(header ?? '').matchAll(/299 - "([^"]*)"/g)].map(([, text = '']) => text);
}

/**
 * Calls the server with the session of the page.
 * @param path - below this origin
 * @param signal - gives it up
 * @throws ApiError
 */
export async function call<T>(
  method: string,
  path: string,
  body?: unknown,
  headers: Readonly<Record<string, string>> = {},
  signal?: AbortSignal,
): Promise<Answer<T>> {
  let reply: Response;
  try {
    reply = await fetch(path, {
      method,
      signal: signal ?? null,
      headers: {
        accept: 'application/json',
        ...headers,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new ApiError(0, 'the server does not answer; is the network there?');
  }
  const text = await reply.text();
  if (!reply.ok) {
    const refusal = refusalIn(reply.status, text);
    if (reply.status === 401) onSignedOut(refusal.message);
    throw refusal;
  }
  return {
    status: reply.status,
    body: JSON.parse(text) as T,
    warnings: warningsIn(reply.headers.get('warning')),
  };
}

/** A path of `/api/v1` below a namespace, for the page. */
export function inNamespace(namespace: string, ...parts: readonly string[]): string {
  return ['/ui/api/v1/namespaces', ...[namespace, ...parts].map(encodeURIComponent)].join('/');
}

/** What the page shows one of. */
interface Shown {
  readonly namespace: string;
  readonly name: string;
  readonly uid?: string | undefined;
}

/** The path of this very object, or of something to do to it; another one that has got its name by now is not meant. */
export function pathOf(
  kind: string,
  { namespace, name, uid }: Shown,
  { verb, query = {} }: { readonly verb?: string; readonly query?: Readonly<Record<string, string>> } = {},
): string {
  const path = inNamespace(namespace, kind, name, ...(verb === undefined ? [] : [verb]));
  const asked = new URLSearchParams({ ...(uid === undefined ? {} : { uid }), ...query }).toString();
  return asked === '' ? path : `${path}?${asked}`;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
