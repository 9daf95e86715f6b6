import * as z from 'zod';
import { invalidField, Svc3Error, type FieldCause } from '../errors.ts';

/** What JSON can say. */
export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

type Shape = Readonly<Record<string, z.core.$ZodType>>;

interface Fold {
  readonly warn: (text: string) => void;
}

const lowered = new WeakMap<z.ZodObject, ReadonlyMap<string, string>>();

function namesOf(schema: z.ZodObject): ReadonlyMap<string, string> {
  const known = lowered.get(schema);
  if (known !== undefined) return known;
  const names = new Map(Object.keys(schema.shape as Shape).map((name) => [name.toLowerCase(), name]));
  lowered.set(schema, names);
  return names;
}

function unwrap(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodNullable)
    return unwrap(schema.def.innerType);
  if (schema instanceof z.ZodPipe) return unwrap(schema.def.in);
  return schema;
}

function foldObject(
  schema: z.ZodObject,
  value: Record<string, JsonValue>,
  path: string,
  fold: Fold,
): JsonValue {
  const names = namesOf(schema);
  const folded: Record<string, JsonValue> = {};
  for (const [given, member] of Object.entries(value)) {
    const field = path === '' ? given : `${path}.${given}`;
    const name = names.get(given.toLowerCase());
    if (name === undefined && schema.def.catchall !== undefined) {
      folded[given] = member;
      continue;
    }
    if (name === undefined) {
      fold.warn(`unknown field "${printable(field)}"`);
      continue;
    }
    if (Object.hasOwn(folded, name)) throw invalidField(field, 'is given twice', 'FieldValueDuplicate');
    const inner = (schema.shape as Shape)[name];
    if (inner === undefined || member === null) continue;
    folded[name] = foldFields(inner, member, path === '' ? name : `${path}.${name}`, fold);
  }
  return folded;
}

/** A field name as a header can carry it. */
function printable(name: string): string {
  return name.replaceAll(/[^\x20-\x7e]|["\\]/g, '?').slice(0, 120);
}

/**
 * Gives fields the names of the schema whatever their case, drops null and unknown ones, and warns of the latter
 * (contract: "Field names match case-insensitively", "unknown fields").
 */
function foldFields(schema: z.core.$ZodType, value: JsonValue, path: string, fold: Fold): JsonValue {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodObject && typeof value === 'object' && value !== null && !Array.isArray(value))
    return foldObject(inner, value, path, fold);
  if (inner instanceof z.ZodArray && Array.isArray(value))
    return value.map((item, index) => foldFields(inner.def.element, item, `${path}[${index}]`, fold));
  return value;
}

function fieldName(issuePath: readonly PropertyKey[], where: string): string {
  let name = '';
  for (const part of issuePath)
    name += typeof part === 'number' ? `[${part}]` : `${name === '' ? '' : '.'}${String(part)}`;
  return name === '' ? where : name;
}

function causeOf(issue: z.core.$ZodIssue, where: string): FieldCause {
  const field = fieldName(issue.path, where);
  if (issue.code === 'invalid_type' && issue.message.endsWith('received undefined'))
    return { field, message: 'is required', reason: 'FieldValueRequired' };
  if (issue.code === 'invalid_value')
    return { field, message: issue.message, reason: 'FieldValueNotSupported' };
  return { field, message: issue.message, reason: 'FieldValueInvalid' };
}

/** The schema's refusal as an Svc3Error that names every field. */
function refusalOf(error: z.core.$ZodError, where: string): Svc3Error {
  const causes = error.issues.map((issue) => causeOf(issue, where));
  return new Svc3Error('Invalid', causes.map((cause) => `${cause.field}: ${cause.message}`).join('; '), {
    details: { causes },
  });
}

/** Checks a JSON value (`where` names it when it has no field) and returns what the schema makes of it; `null` is as good as none. */
export function validate<S extends z.ZodType>(
  schema: S,
  value: JsonValue | undefined,
  where: string,
  warn: (text: string) => void,
): z.output<S> {
  const folded = value === undefined || value === null ? undefined : foldFields(schema, value, '', { warn });
  const result = schema.safeParse(folded);
  if (!result.success) throw refusalOf(result.error, where);
  return result.data;
}
