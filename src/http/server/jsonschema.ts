import * as z from 'zod';

export type Json = Readonly<Record<string, unknown>>;

/** A schema in an OpenAPI document, with what it refers to. */
export interface NamedSchemas {
  /** The schema; a reference where it has a name. */
  of(schema: z.ZodType, io: 'input' | 'output'): Json;
  /** Every schema that was referred to so far, by name. */
  readonly named: Readonly<Record<string, Json>>;
}

/**
 * JSON Schema of zod schemas. A schema with an id (`.meta({ id })`) is written once and referred to by `reference`.
 *
 * @param reference - the value of `$ref` for a name
 */
export function createNamedSchemas(
  target: 'draft-2020-12' | 'draft-7',
  reference: (name: string) => string,
): NamedSchemas {
  const named: Record<string, Json> = {};

  function referring(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(referring);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => {
        const name =
          key === '$ref' ? /^#\/(?:\$defs|definitions)\/(.+)$/.exec(String(member))?.[1] : undefined;
        return [key, name === undefined ? referring(member) : reference(name)];
      }),
    );
  }

  return {
    named,
    of(schema, io) {
      // As a member of another schema it becomes a reference too; zod writes the outermost one out.
      const wrapped = z.toJSONSchema(z.object({ schema }), { target, io, unrepresentable: 'any' });
      for (const [name, definition] of Object.entries(wrapped.$defs ?? wrapped.definitions ?? {})) {
        const { id: _, ...rest } = referring(definition) as Json;
        named[name] ??= rest;
      }
      return referring(wrapped.properties?.['schema'] ?? {}) as Json;
    },
  };
}
