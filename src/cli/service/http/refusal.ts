import type { Readable } from 'node:stream';
import { errorTable, isSvc3Error, messageOf, Svc3Error, type ErrorReason } from '../../../errors.ts';
import { readWhole } from '../../../net/foreign.ts';
import { isUntrusted } from '../../authorities.ts';
import { Unanswered } from '../unanswered.ts';

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

/** The refusal of a `Status` body, or of the bare code where something else answered. */
export function refusalOf(code: number, text: string): Svc3Error {
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
  const known =
    typeof reason === 'string' && Object.hasOwn(errorTable, reason) ? (reason as ErrorReason) : undefined;
  const name = known ?? reasonsByStatus.get(code) ?? (code >= 500 ? 'BadGateway' : 'BadRequest');
  const words =
    typeof message === 'string' && message !== '' ? message : `the server answered with HTTP ${code}`;
  return kind !== 'Status' && code >= 500 ? new Unanswered(name, words) : refusalNamed(name, words);
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
