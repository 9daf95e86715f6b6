import { Svc3Error, errorTable, type ErrorReason } from '../../errors.ts';
import { RegistryUnreachable } from '../../registry/transport.ts';
import type { ReadonlyDeep } from '../../wire/readonly.ts';
import type { Status } from '../../wire/schemas.ts';

export function success(message: string, code = 200): Status {
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', message, code };
}

export function failure(error: Svc3Error): ReadonlyDeep<Status> {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: error.message,
    reason: error.reason,
    details: error.details,
    code: error.status,
  };
}

const reasonsByStatus = new Map<number, ErrorReason>(
  Object.entries(errorTable)
    .toReversed()
    .map(([reason, row]) => [row.status, reason as ErrorReason]),
);

/** What Fastify itself refuses (a URL, a body's size, a content type), and a registry that does not answer, as a refusal of the table. */
export function refusalFrom(error: unknown): Svc3Error {
  if (error instanceof Svc3Error) return error;
  if (error instanceof RegistryUnreachable)
    return new Svc3Error('BadGateway', error.message, { cause: error });
  const { statusCode, code, message } = error as { statusCode?: number; code?: string; message?: string };
  if (typeof statusCode !== 'number' || statusCode >= 500 || code?.startsWith('FST_') !== true)
    return new Svc3Error('InternalError', 'an internal error occurred', { cause: error });
  const reason = reasonsByStatus.get(statusCode) ?? 'BadRequest';
  const field = fieldsByCode[code] ?? 'body';
  const text =
    reason === 'UnsupportedMediaType'
      ? 'Content-Type: must be application/json'
      : `${field}: ${message ?? ''}`;
  return new Svc3Error(reason, text, { details: { causes: [{ field, message: text }] }, cause: error });
}

const fieldsByCode: Readonly<Record<string, string>> = {
  FST_ERR_BAD_URL: 'url',
  FST_ERR_ASYNC_CONSTRAINT: 'url',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'Content-Type',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'Content-Length',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body',
};
