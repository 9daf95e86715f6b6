import type * as z from 'zod';
import { validate } from '../../../wire/fields.ts';
import type { JsonValue } from '../../../wire/fields.ts';

/**
 * Checks a request with the schema of `/api/v1`, so that a refusal is the same sentence on both ways. Fields that the schema does not have
 * are left out; `warning` is told of each, in the sentence that `/api/v1` answers with. Without it nobody is told: where a command names
 * all fields itself, or checks what is checked again when it is written.
 *
 * @throws Svc3Error Invalid that names every field
 */
export function checked<S extends z.ZodType>(
  schema: S,
  request: object,
  warning: (text: string) => void = () => {},
): z.output<S> {
  return validate(schema, withoutUndefined(request), 'request', warning);
}

/** Members that are `undefined` do not exist in JSON. */
function withoutUndefined(request: object): JsonValue {
  return JSON.parse(JSON.stringify(request)) as JsonValue;
}
