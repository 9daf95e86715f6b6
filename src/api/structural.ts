import { z } from 'zod';

/** One node of a structural schema as a CustomResourceDefinition holds it. */
export interface JsonSchema {
  type?: string;
  description?: string;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  required?: string[];
  enum?: unknown[];
  default?: unknown;
  maxLength?: number;
  maxItems?: number;
  minimum?: number;
  maximum?: number;
  format?: string;
  [key: string]: unknown;
}

/** Keys that a structural schema may not hold, or that hide a type from kube-apiserver. */
const forbiddenKeys = [
  'oneOf',
  'anyOf',
  'allOf',
  'not',
  '$ref',
  'const',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'patternProperties',
  'propertyNames',
  'nullable',
];

/**
 * The structural schema of a zod schema: what is written is checked (`io: input`), unknown fields are pruned by
 * kube-apiserver rather than refused.
 * @throws Error naming the field that cannot be said in a structural schema, has no bound or no description
 */
export function structuralSchema(schema: z.ZodType): JsonSchema {
  const converted = z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' }) as JsonSchema;
  return clean(converted, '');
}

function clean(node: JsonSchema, path: string): JsonSchema {
  const at = path === '' ? 'the schema' : path;
  for (const key of forbiddenKeys) if (key in node) throw new Error(`${at}: ${key} is not structural`);
  if (node.type === undefined) throw new Error(`${at} has no type`);
  if (node.description === undefined && !path.endsWith('[]')) throw new Error(`${at} has no description`);
  checkBounds(node, at);
  const { additionalProperties, $schema: _schema, properties, items, ...rest } = node;
  const isOpaque = node['x-kubernetes-preserve-unknown-fields'] === true;
  const isMap = !isOpaque && additionalProperties !== undefined && additionalProperties !== false;
  if (isMap && node.maxProperties === undefined) throw new Error(`${at} is a map without maxProperties`);
  return {
    ...rest,
    ...(isMap ? { additionalProperties: clean(additionalProperties as JsonSchema, `${path}[]`) } : {}),
    ...(properties === undefined || Object.keys(properties).length === 0
      ? {}
      : { properties: mapValues(properties, (child, name) => clean(child, `${path}.${name}`)) }),
    ...(items === undefined ? {} : { items: clean(items, `${path}[]`) }),
  };
}

function checkBounds(node: JsonSchema, at: string): void {
  if (node.type === 'string' && node.maxLength === undefined && node.enum === undefined)
    throw new Error(`${at} has no maxLength`);
  if (node.type === 'array' && (node.maxItems === undefined || node.items === undefined))
    throw new Error(`${at} has no maxItems or items`);
  if (node.type === 'number') throw new Error(`${at} is a float; use a quantity`);
  if (node.type === 'integer' && (node.minimum === undefined || node.maximum === undefined))
    throw new Error(`${at} has no minimum or maximum`);
}

function mapValues<T>(record: Record<string, T>, change: (value: T, key: string) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value, key)]));
}
