/** As much of a JSON schema as forms are made of. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

export type Schemas = Readonly<Record<string, Schema>>;

/** One input of a form. */
export interface Field {
  /** As refusals name it: `disk.size`. */
  readonly path: string;
  readonly title: string;
  readonly help: string;
  readonly isRequired: boolean;
  /** `lines`: a list of texts; `json`: what no plainer input can say; `presence`: an object that is there or not. */
  readonly kind: 'text' | 'number' | 'flag' | 'presence' | 'choice' | 'lines' | 'json' | 'group';
  readonly choices: readonly string[];
  /** Of a group. */
  readonly fields: readonly Field[];
}

/** What somebody has put in, by path. */
export type Values = ReadonlyMap<string, string>;

const acronyms = /^(?:cpu|gpu|vm|iso|ssh|vnc|dpi|io|ip)$/i;

/** `gpuPassthrough` as `GPU passthrough`. */
export function titleOf(name: string): string {
  const words = name.match(/[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+/g) ?? [name];
  const text = words.map((word) => (acronyms.test(word) ? word.toUpperCase() : word.toLowerCase())).join(' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function resolved(schema: Schema, schemas: Schemas): Schema {
  const name = schema.$ref?.split('/').at(-1);
  const target = name === undefined ? schema : { ...schemas[name], ...schema, $ref: undefined };
  const { anyOf, ...rest } = target as Schema;
  // The alternatives to a text are the empty one, or another notation of the same.
  const first = anyOf?.find((option) => option.const !== '' && option.type !== 'null');
  return first === undefined ? rest : { ...resolved(first, schemas), ...defined(rest) };
}

function defined(schema: Schema): Schema {
  return Object.fromEntries(Object.entries(schema).filter(([, value]) => value !== undefined));
}

function kindOf(schema: Schema, schemas: Schemas): Field['kind'] {
  if (schema.enum !== undefined) return 'choice';
  if (schema.type === 'boolean') return 'flag';
  if (schema.type === 'integer' || schema.type === 'number') return 'number';
  if (schema.type === 'string') return 'text';
  if (schema.type === 'array')
    return resolved(schema.items ?? {}, schemas).type === 'string' ? 'lines' : 'json';
  if (schema.properties === undefined) return 'json';
  return Object.keys(schema.properties).length === 0 ? 'presence' : 'group';
}

/** The fields of an object's schema, in its order. */
export function fieldsOf(given: Schema, schemas: Schemas, under = ''): Field[] {
  const { properties = {}, required = [] } = resolved(given, schemas);
  return Object.entries(properties).map(([name, property]) => {
    const schema = resolved(property, schemas);
    const kind = kindOf(schema, schemas);
    const path = under === '' ? name : `${under}.${name}`;
    return {
      path,
      title: titleOf(name),
      help: schema.description ?? '',
      isRequired: required.includes(name),
      kind,
      choices: (schema.enum ?? []).map(String).filter((choice) => choice !== ''),
      fields: kind === 'group' ? fieldsOf(schema, schemas, path) : [],
    };
  });
}

/** What cannot be sent as it was put in. */
export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

/** The body that the values make, without what is empty, and what is wrong with them. */
export function bodyOf(
  fields: readonly Field[],
  values: Values,
): { readonly body: Readonly<Record<string, unknown>>; readonly problems: readonly FieldProblem[] } {
  const body: Record<string, unknown> = {};
  const problems: FieldProblem[] = [];
  for (const field of fields) {
    const name = field.path.split('.').at(-1) ?? field.path;
    if (field.kind === 'group') {
      const inner = bodyOf(field.fields, values);
      problems.push(...inner.problems);
      if (Object.keys(inner.body).length > 0) body[name] = inner.body;
      continue;
    }
    const text = (values.get(field.path) ?? '').trim();
    if (text === '') continue;
    try {
      body[name] = valueOf(field, text);
    } catch {
      problems.push({ field: field.path, message: field.kind === 'json' ? 'is no JSON' : 'is no number' });
    }
  }
  return { body, problems };
}

function valueOf({ kind }: Field, text: string): unknown {
  if (kind === 'flag') return text === 'true';
  if (kind === 'presence') return {};
  if (kind === 'lines')
    return text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
  if (kind === 'json') return JSON.parse(text) as unknown;
  if (kind !== 'number') return text;
  const number = Number(text);
  if (!Number.isFinite(number)) throw new TypeError('no number');
  return number;
}

/** What is said of a field or of what is in it, as one text. */
export function problemOf(problems: readonly FieldProblem[], path: string): string | undefined {
  const own = problems.filter(
    ({ field }) => field === path || field.startsWith(`${path}.`) || field.startsWith(`${path}[`),
  );
  return own.length === 0 ? undefined : own.map(({ message }) => message).join('; ');
}

/** What is said of no field of the form. */
export function otherProblems(problems: readonly FieldProblem[], fields: readonly Field[]): FieldProblem[] {
  return problems.filter((problem) => fields.every(({ path }) => problemOf([problem], path) === undefined));
}
