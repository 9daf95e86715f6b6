import { errorTable, isSvc3Error, messageOf, Svc3Error } from '../errors.ts';
import type { ErrorDetails, ErrorReason, FieldCause } from '../errors.ts';

/** metav1.Status, the parts that are read. */
interface Status {
  kind: 'Status';
  message?: string;
  reason?: string;
  code?: number;
  details?: {
    name?: string;
    group?: string;
    kind?: string;
    retryAfterSeconds?: number;
    causes?: { field?: string; message?: string; reason?: string }[];
  };
}

/** Reasons of kube-apiserver that are spelled differently in our table. */
const otherNames: Record<string, ErrorReason> = {
  ServerTimeout: 'Timeout',
  StoreReadError: 'InternalError',
  ResourceExpired: 'Expired',
};

const reasonOfCode: Record<number, ErrorReason> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  409: 'Conflict',
  410: 'Expired',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  501: 'NotImplemented',
  502: 'BadGateway',
  503: 'ServiceUnavailable',
  504: 'Timeout',
};

const causeReasons = new Set<string>([
  'FieldValueRequired',
  'FieldValueInvalid',
  'FieldValueDuplicate',
  'FieldValueNotSupported',
  'FieldValueForbidden',
]);

function isStatus(body: unknown): body is Status {
  return typeof body === 'object' && body !== null && (body as { kind?: unknown }).kind === 'Status';
}

function isErrorReason(reason: string): reason is ErrorReason {
  return Object.hasOwn(errorTable, reason);
}

function reasonOf(code: number, reason: string | undefined): ErrorReason {
  if (reason !== undefined && isErrorReason(reason)) return reason;
  return otherNames[reason ?? ''] ?? reasonOfCode[code] ?? (code >= 500 ? 'InternalError' : 'BadRequest');
}

/** What kube-apiserver writes where rules were not run because of another mistake. */
const noField = '<nil>';

function causesOf(status: Status): FieldCause[] {
  return (status.details?.causes ?? []).flatMap(({ field, message, reason }) =>
    field === undefined || field === noField
      ? []
      : [
          {
            field,
            message: message ?? '',
            ...(reason !== undefined && causeReasons.has(reason)
              ? { reason: reason as NonNullable<FieldCause['reason']> }
              : {}),
          },
        ],
  );
}

function detailsOf(status: Status, retryAfterSeconds: number | undefined): ErrorDetails {
  const { group, kind, name } = status.details ?? {};
  const retryAfter = retryAfterSeconds ?? status.details?.retryAfterSeconds;
  const causes = causesOf(status);
  return {
    ...(group === undefined ? {} : { group }),
    ...(kind === undefined ? {} : { kind }),
    ...(name === undefined ? {} : { name }),
    ...(retryAfter === undefined ? {} : { retryAfterSeconds: retryAfter }),
    ...(causes.length === 0 ? {} : { causes }),
  };
}

/** Seconds of a Retry-After header; the HTTP date form counts from `now` (milliseconds). */
export function retryAfterOf(header: string | string[] | undefined, now = Date.now()): number | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  if (text === undefined) return undefined;
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : (Date.parse(text) - now) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** The refusal of kube-apiserver as our error: its reason, its message, its causes by field. */
export function errorOfReply(code: number, body: unknown, retryAfterSeconds?: number): Svc3Error {
  const status: Status = isStatus(body) ? body : { kind: 'Status' };
  const text = typeof body === 'string' && body.trim() !== '' ? body.trim().slice(0, 300) : undefined;
  const message = status.message ?? text ?? `kube-apiserver answered with status ${code}`;
  const details = detailsOf(status, retryAfterSeconds);
  const reason = isOfAnother(details) ? 'Conflict' : reasonOf(status.code ?? code, status.reason);
  return new Svc3Error(reason, message, { details });
}

/** A patch that names the UID of an object for which there is another one by now: other writes are refused with Conflict then. */
function isOfAnother({ causes = [] }: ErrorDetails): boolean {
  return causes.some(({ field, reason }) => field === 'metadata.uid' && reason === 'FieldValueInvalid');
}

/**
 * Whether a webhook has refused a write, or had to be asked and could not be (`failurePolicy: Fail`, answered 500): kube-apiserver itself goes
 * well, and what another namespace is written may be nothing of that webhook's.
 */
export function isOfWebhook(error: unknown): error is Svc3Error {
  // No part of an address.
  return isSvc3Error(error) && /(?<![\w./-])webhook(?![\w.-])/.test(messageOf(error));
}

/** The refusal inside an ERROR event of a watch. */
export function errorOfStatus(body: unknown): Svc3Error {
  return errorOfReply(isStatus(body) ? (body.code ?? 500) : 500, body);
}

/** Of a call that waited for a connection when its pool was replaced by another. */
export class ReplacedError extends Error {
  readonly code = 'ERR_REPLACED';

  constructor() {
    super('the connection was replaced by another');
  }
}

/** Codes of errors that are thrown before the first byte of a request has left: sending again repeats nothing. */
const neverSent = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'ERR_REPLACED',
]);

const tlsCode = /^(ERR_TLS|ERR_SSL|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO|EPROTO)/;

function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  const { code } = error as { code?: unknown };
  return typeof code === 'string' ? code : '';
}

/** True where the request cannot have reached the server, and trying again may help. */
export function wasNeverSent(error: unknown): boolean {
  return neverSent.has(codeOf(error));
}

/** True where trying again cannot help: the server's certificate is not trusted. */
export function isUntrusted(error: unknown): boolean {
  return tlsCode.test(codeOf(error));
}

/** A failure below HTTP: no answer came. `Timeout` where time ran out, else `ServiceUnavailable`. */
export function errorOfConnection(cause: unknown, server: string): Svc3Error {
  const code = codeOf(cause);
  const text = messageOf(
    cause instanceof AggregateError && cause.errors.length > 0 ? cause.errors[0] : cause,
  );
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT')
    return new Svc3Error('Timeout', `kube-apiserver ${server} did not answer in time`, { cause });
  const what = isUntrusted(cause) ? 'cannot be trusted' : 'cannot be reached';
  return new Svc3Error('ServiceUnavailable', `kube-apiserver ${server} ${what}: ${text}`, { cause });
}
