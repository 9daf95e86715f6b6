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
  readonly kind?: string;
  readonly message?: string;
  readonly reason?: ErrorReason;
  readonly details?: { readonly causes?: readonly FieldCause[] };
}

/** Of what nothing but the server can tell: whether there is something, whose the session is, and what they may do. */
const toldByServer: ReadonlySet<number> = new Set([401, 403, 404]);

/** The error of a reply that the server has not written: it says nothing of what was asked for. */
function notOfServer(code?: number): ApiError {
  const what = code === undefined ? '' : ` with HTTP ${code}`;
  return new ApiError(502, `something between the page and the server answered${what}`);
}

/** The refusal in a reply's text; a proxy may have written it. */
function refusalIn(status: number, text: string): ApiError {
  const { kind, message = `the server answered with HTTP ${status}`, ...more } = statusIn(text);
  // The server writes a Status (contract: "General").
  if (kind !== 'Status' && toldByServer.has(status)) return notOfServer(status);
  return new ApiError(status, message, more);
}

function statusIn(text: string): StatusBody {
  try {
    return (JSON.parse(text) as StatusBody | null) ?? {};
  } catch {
    return {};
  }
}

/**
 * What a reply says that has come whole.
 *
 * @throws ApiError where it refuses, or something else than the server has written it, as a page for signing in
 */
export function answerIn(status: number, text: string): unknown {
  if (status >= 400) throw refusalIn(status, text);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw notOfServer();
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
  const { reply, text } = await answered(path, {
    method,
    signal: signal ?? null,
    headers: {
      accept: 'application/json',
      ...headers,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const { status } = reply;
  try {
    return { status, body: answerIn(status, text) as T, warnings: warningsIn(reply.headers.get('warning')) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) onSignedOut(error.message);
    throw error;
  }
}

/** @throws ApiError where the reply does not come, or not whole */
async function answered(path: string, request: RequestInit): Promise<{ reply: Response; text: string }> {
  try {
    const reply = await fetch(path, request);
    return { reply, text: await reply.text() };
  } catch {
    throw new ApiError(0, 'the server does not answer; is the network there?');
  }
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
