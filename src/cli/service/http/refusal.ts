import type { Readable } from 'node:stream';
import { errorTable, isSvc3Error, messageOf, Svc3Error, type ErrorReason } from '../../../errors.ts';
import { readWhole } from '../../../net/foreign.ts';
import { isUntrusted } from '../../authorities.ts';
import { Unanswered } from '../unanswered.ts';
import type { ApiReply } from './reply.ts';

const largestRefusal = 1024 * 1024;

/** Of a reply that refuses; empty where it is too long or breaks off: its code says enough then. */
export async function refusalText(body: Readable): Promise<string> {
  try {
    return (await readWhole(body, largestRefusal, () => new Error('too long'))).toString('utf8');
  } catch {
    return '';
  }
}

const reasonsByStatus = new Map<number, ErrorReason>(
  (Object.keys(errorTable) as ErrorReason[])
    .toReversed()
    .map((reason) => [errorTable[reason].status, reason]),
);

/**
 * Of what nothing but the api can tell: whether there is an object, whom a token is of, and what they may do (contract: "General"). Proxies
 * answer 404 while no replica is ready, and 401 and 403 of their own accord.
 */
const toldByApi: ReadonlySet<number> = new Set([401, 403, 404]);

/** To whom a request went that was refused. */
interface Asked {
  readonly baseUrl: string;
  /** Whether it is known to be the api that refuses; where not, by a `Status` body. */
  readonly isApi?: boolean;
}

/** The refusal of a reply that is none of success (2xx); its body is read. One to HEAD has none, and is known by its type. */
export async function refusalIn(
  { status, headers, body }: ApiReply,
  { baseUrl, method }: { readonly baseUrl: string; readonly method: string },
): Promise<Svc3Error> {
  const text = await refusalText(body);
  // The api redirects nobody.
  if (status < 400) return notOfApi(baseUrl, { redirect: redirectIn(headers.location, baseUrl) });
  const isOfHead = method === 'HEAD' ? { isApi: isJson(headers['content-type']) } : {};
  return refusalOf(status, text, { baseUrl, ...isOfHead });
}

function isJson(type: string | undefined): boolean {
  return type?.startsWith('application/json') === true;
}

/** The error of a reply that no svc3 API gives. */
export function notOfApi(
  baseUrl: string,
  { redirect, cause }: { readonly redirect?: string; readonly cause?: unknown } = {},
): Svc3Error {
  const why = redirect === undefined ? '' : `: ${redirect}`;
  return new Svc3Error('BadGateway', `${baseUrl} does not answer as an svc3 API does${why}`, { cause });
}

/** Without what stands behind the host: pages for signing in have secrets there. */
function redirectIn(location: string | undefined, baseUrl: string): string {
  const { protocol = '', host = '' } = URL.parse(location ?? '', baseUrl) ?? {};
  const origin = `${protocol}//${host}`;
  const isElsewhere = host !== '' && origin !== new URL(baseUrl).origin;
  return isElsewhere ? `it redirects to ${origin}` : 'it redirects';
}

/**
 * The refusal of a `Status` body, or of the bare code where something else answered: ServiceUnavailable where that says nothing of what was
 * asked for.
 */
export function refusalOf(code: number, text: string, { baseUrl, isApi }: Asked): Svc3Error {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    // Not a Status: a proxy in between, whose page says less than its code.
  }
  const { kind, message, reason } = (typeof body === 'object' && body !== null ? body : {}) as {
    kind?: unknown;
    message?: unknown;
    reason?: unknown;
  };
  const isOfApi = isApi ?? kind === 'Status';
  // It was not passed on: nothing was begun.
  if (!isOfApi && toldByApi.has(code))
    return new Svc3Error(
      'ServiceUnavailable',
      `something between this machine and the svc3 API answered with HTTP ${code}; is ${baseUrl} its address?`,
    );
  const known =
    typeof reason === 'string' && Object.hasOwn(errorTable, reason) ? (reason as ErrorReason) : undefined;
  const name = known ?? reasonsByStatus.get(code) ?? (code >= 500 ? 'BadGateway' : 'BadRequest');
  const words =
    typeof message === 'string' && message !== '' ? message : `the server answered with HTTP ${code}`;
  return !isOfApi && code >= 500 ? new Unanswered(name, words) : refusalNamed(name, words);
}

/** A refusal in the server's words, and what helps against it. */
export function refusalNamed(name: ErrorReason, words: string): Svc3Error {
  return new Svc3Error(name, name === 'Unauthorized' ? `${words}; svc3 login gets a new token` : words);
}

/** Codes of connections that broke when they were open already. */
const broken: ReadonlySet<unknown> = new Set([
  'ECONNRESET',
  'EPIPE',
  'UND_ERR_SOCKET',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
]);

/** What a broken connection is to a user; a refusal stays what it is. */
export function unreachable(baseUrl: string, error: unknown): Error {
  if (isSvc3Error(error)) return error;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  // What was configured is of the address that was configured, which need not be this one.
  const remedy = `; name its certificate authority: svc3 login ${baseUrl} --ca-file FILE, or SVC3_CA_FILE=FILE`;
  const hint = isUntrusted(error) ? remedy : '';
  const message = `cannot reach ${baseUrl}: ${messageOf(error)}${hint}`;
  const Kind = broken.has(code) ? Unanswered : Svc3Error;
  return new Kind('ServiceUnavailable', message, { cause: error });
}
