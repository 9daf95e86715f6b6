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
  /** `lines`: a list of texts; `list`: one of objects; `json`: what no plainer input can say; `presence`: an object that is there or not. */
  readonly kind: 'text' | 'number' | 'flag' | 'presence' | 'choice' | 'lines' | 'list' | 'json' | 'group';
  readonly choices: readonly string[];
  /** Of a group, and of an item of a list, whose place in it is still open: `disks[].size`. */
  readonly fields: readonly Field[];
}

/** What somebody has put in, by path; of a list, how many items it has. */
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
  if (schema.type === 'array') {
    const items = resolved(schema.items ?? {}, schemas);
    if (items.type === 'string') return 'lines';
    return Object.keys(items.properties ?? {}).length > 0 ? 'list' : 'json';
  }
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
      fields: innerFields(kind, schema, schemas, path),
    };
  });
}

function innerFields(kind: Field['kind'], schema: Schema, schemas: Schemas, path: string): Field[] {
  if (kind === 'list') return fieldsOf(schema.items ?? {}, schemas, `${path}[]`);
  return kind === 'group' ? fieldsOf(schema, schemas, path) : [];
}

/** The fields of an item of a list, which begins to count at 0. */
export function itemFields({ path, fields }: Field, index: number): Field[] {
  const open = `${path}[]`.length;
  const placed = (field: Field): Field =>
    Object.assign({}, field, {
      path: `${path}[${index}]${field.path.slice(open)}`,
      fields: field.fields.map(placed),
    });
  return fields.map(placed);
}

/** How many items of a list are being put in. */
export function countOf(values: Values, path: string): number {
  return Number(values.get(path) ?? 0);
}

/** With one more item at the end of a list. */
export function withItem(values: Values, path: string): Values {
  return new Map(values).set(path, String(countOf(values, path) + 1));
}

/** Without an item of a list: those after it move up. */
export function withoutItem(values: Values, path: string, index: number): Values {
  const kept = new Map<string, string>();
  for (const [key, value] of values) {
    const [, at = '', rest = ''] = key.startsWith(`${path}[`)
      ? (/^(\d+)(\].*)$/.exec(key.slice(path.length + 1)) ?? [])
      : [];
    const place = at === '' ? -1 : Number(at);
    if (place !== index) kept.set(place > index ? `${path}[${place - 1}${rest}` : key, value);
  }
  return kept.set(path, String(countOf(values, path) - 1));
}

/** The fields without those of these paths, at any depth; a group that loses all of its own goes with them. */
export function without(fields: readonly Field[], paths: ReadonlySet<string>): Field[] {
  return fields
    .filter(({ path }) => !paths.has(path))
    .map((field) => Object.assign({}, field, { fields: without(field.fields, paths) }))
    .filter(({ kind, fields: inner }) => kind !== 'group' || inner.length > 0);
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
    if (field.kind === 'list') {
      const count = countOf(values, field.path);
      const items = Array.from({ length: count }, (_, index) => bodyOf(itemFields(field, index), values));
      problems.push(...items.flatMap((item) => item.problems));
      if (count > 0) body[name] = items.map((item) => item.body);
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

/** What is said of a group or a list and of none of the fields in it, as one text. */
export function ownProblemOf(
  problems: readonly FieldProblem[],
  path: string,
  inner: readonly Field[],
): string | undefined {
  return problemOf(otherProblems(problems, inner), path);
}

/** What is said of no field of the form. */
export function otherProblems(problems: readonly FieldProblem[], fields: readonly Field[]): FieldProblem[] {
  return problems.filter((problem) => fields.every(({ path }) => problemOf([problem], path) === undefined));
}
