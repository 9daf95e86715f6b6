/** The one table of errors: every refusal of svc3 is one of these names, wherever it is shown. */
export const errorTable = {
  BadRequest: { status: 400, exitCode: 2, retry: false },
  Unauthorized: { status: 401, exitCode: 4, retry: false },
  Forbidden: { status: 403, exitCode: 5, retry: false },
  NotFound: { status: 404, exitCode: 6, retry: false },
  MethodNotAllowed: { status: 405, exitCode: 2, retry: false },
  NotAcceptable: { status: 406, exitCode: 2, retry: false },
  AlreadyExists: { status: 409, exitCode: 7, retry: false },
  Conflict: { status: 409, exitCode: 7, retry: true },
  Gone: { status: 410, exitCode: 6, retry: false },
  Expired: { status: 410, exitCode: 1, retry: true },
  RequestEntityTooLarge: { status: 413, exitCode: 2, retry: false },
  UnsupportedMediaType: { status: 415, exitCode: 2, retry: false },
  RangeNotSatisfiable: { status: 416, exitCode: 2, retry: false },
  Invalid: { status: 422, exitCode: 2, retry: false },
  TooManyRequests: { status: 429, exitCode: 9, retry: true },
  InternalError: { status: 500, exitCode: 1, retry: true },
  NotImplemented: { status: 501, exitCode: 1, retry: false },
  BadGateway: { status: 502, exitCode: 8, retry: true },
  ServiceUnavailable: { status: 503, exitCode: 8, retry: true },
  Timeout: { status: 504, exitCode: 8, retry: true },
} as const satisfies Record<string, { status: number; exitCode: number; retry: boolean }>;

export type ErrorReason = keyof typeof errorTable;

/** One field that was refused: its path as the caller wrote it, and why. */
export interface FieldCause {
  readonly field: string;
  readonly message: string;
  readonly reason?:
    | 'FieldValueRequired'
    | 'FieldValueInvalid'
    | 'FieldValueDuplicate'
    | 'FieldValueNotSupported'
    | 'FieldValueForbidden';
}

export interface ErrorDetails {
  readonly group?: string;
  readonly kind?: string;
  readonly name?: string;
  readonly retryAfterSeconds?: number;
  readonly causes?: readonly FieldCause[];
}

/** A refusal with a name from the table; `message` is safe to show to the caller and never holds a secret. */
export class Svc3Error extends Error {
  override readonly name = 'Svc3Error';
  readonly reason: ErrorReason;
  readonly details: ErrorDetails;

  constructor(
    reason: ErrorReason,
    message: string,
    options: { details?: ErrorDetails; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.reason = reason;
    this.details = options.details ?? {};
  }

  /** HTTP status of the refusal, from the table. */
  get status(): number {
    return errorTable[this.reason].status;
  }
}

/** A refusal that names one field: 422 with the field as its cause. */
export function invalidField(
  field: string,
  message: string,
  reason: FieldCause['reason'] = 'FieldValueInvalid',
): Svc3Error {
  return new Svc3Error('Invalid', `${field}: ${message}`, {
    details: { causes: [{ field, message, ...(reason === undefined ? {} : { reason }) }] },
  });
}

export function isSvc3Error(error: unknown, ...reasons: ErrorReason[]): error is Svc3Error {
  return error instanceof Svc3Error && (reasons.length === 0 || reasons.includes(error.reason));
}

/** Whether what was asked for may have been done all the same, or be done yet: the server fell silent, or failed on the way. */
export function leavesOpen(error: unknown): boolean {
  return isSvc3Error(error, 'BadGateway', 'InternalError', 'ServiceUnavailable', 'Timeout');
}

/** Whether the same request may go well a moment later: the server is away, busy or failed. */
export function isPassing(error: unknown): boolean {
  return leavesOpen(error) || isSvc3Error(error, 'TooManyRequests');
}

/** What was looked for, or undefined where it is not there. */
export async function ifFound<T>(looking: Promise<T>): Promise<T | undefined> {
  try {
    return await looking;
  } catch (error) {
    if (isSvc3Error(error, 'NotFound')) return undefined;
    throw error;
  }
}

/**
 * What somebody else has written, in one line and without what a terminal takes for a command: control characters, those of C1 too
 * (ECMA-48), are a space.
 */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}+/gu, ' ');
}

/**
 * What somebody else has written, with no more than `most` characters and without control characters. It is a copy: V8 keeps the
 * whole of a text in memory for any part of it, and a reply may have megabytes.
 */
export function shortened(text: string, most: number): string {
  const cut = text.length > most ? `${text.slice(0, most - 1)}…` : text;
  return Buffer.from(printable(cut)).toString();
}

/** The message of anything thrown, one line. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.split('\n', 1)[0] ?? text;
}
