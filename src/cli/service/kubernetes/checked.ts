import type * as z from 'zod';
import { validate } from '../../../wire/fields.ts';
import type { JsonValue } from '../../../wire/fields.ts';

/**
 * Checks a request with the schema of `/api/v1`, so that a refusal is the same sentence on both ways.
 * @throws Svc3Error Invalid that names every field
 */
export function checked<S extends z.ZodType>(schema: S, request: object): z.output<S> {
  return validate(schema, withoutUndefined(request), 'request', () => {});
}

/** Members that are `undefined` do not exist in JSON. */
function withoutUndefined(request: object): JsonValue {
  return JSON.parse(JSON.stringify(request)) as JsonValue;
}
