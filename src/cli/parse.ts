import { usageError } from './usage.ts';
import { parseQuantity } from '../api/quantity.ts';
import type { ArgumentSpec, Command, Input, OptionSpec, OptionSpecs } from './command.ts';
import { closest } from './closest.ts';

/** Options that every command takes, wherever they stand. */
export const globalOptions = {
  namespace: {
    kind: 'text',
    short: 'n',
    placeholder: 'NAMESPACE',
    summary: 'Namespace to work in',
    complete: 'namespaces',
  },
  output: {
    kind: 'text',
    short: 'o',
    placeholder: 'FORMAT',
    summary: 'Output: table, wide, json, yaml or name',
  },
  'api-url': {
    kind: 'text',
    placeholder: 'URL',
    summary: 'Address of the HTTP API, instead of the configured one',
  },
  kubeconfig: { kind: 'text', placeholder: 'FILE', summary: 'Kubeconfig file, instead of KUBECONFIG' },
  context: { kind: 'text', placeholder: 'NAME', summary: 'Context of the kubeconfig' },
  help: { kind: 'flag', short: 'h', summary: 'Show help with examples' },
} as const satisfies OptionSpecs;

type Value = string | number | boolean | string[];

/** A command line taken apart, not checked against a command yet. */
export interface Words {
  /** Words of the command line that are no options, in order. */
  readonly words: string[];
  readonly values: Map<string, Value>;
}

/**
 * Takes the words of the path off the front of `argv`; global options may stand between them. `isGroup` says whether
 * another word belongs to the path, and throws for one that nothing knows.
 */
export function splitPath(
  argv: readonly string[],
  isGroup: (path: readonly string[]) => boolean,
): { path: string[]; rest: string[]; globals: Map<string, Value> } {
  const path: string[] = [];
  const globals = new Map<string, Value>();
  let index = 0;
  while (index < argv.length && isGroup(path)) {
    const word = argv[index] ?? '';
    if (word.startsWith('-') && word !== '-') index = readOption(argv, index, globalOptions, globals);
    else {
      path.push(word);
      index += 1;
    }
  }
  isGroup(path);
  return { path, rest: argv.slice(index), globals };
}

/** Separates options from words; `--` ends the options. */
export function readWords(argv: readonly string[], options: OptionSpecs): Words {
  const words: string[] = [];
  const values = new Map<string, Value>();
  let index = 0;
  while (index < argv.length) {
    const word = argv[index] ?? '';
    if (word === '--') {
      words.push(...argv.slice(index + 1));
      break;
    }
    if (word.startsWith('-') && word !== '-') index = readOption(argv, index, options, values);
    else {
      words.push(word);
      index += 1;
    }
  }
  return { words, values };
}

/** Reads the option at `index` into `values` and returns the index after it. */
function readOption(
  argv: readonly string[],
  index: number,
  options: OptionSpecs,
  values: Map<string, Value>,
): number {
  const word = argv[index] ?? '';
  const { name, attached, rest } = word.startsWith('--')
    ? longOption(word, options)
    : shortOption(word, options);
  const spec = options[name] as OptionSpec;
  const flag = word.startsWith('--') ? `--${name}` : word.slice(0, 2);
  if (spec.kind === 'flag' || spec.kind === 'toggle') {
    store(values, name, spec, flag, attached === undefined ? true : truth(flag, attached));
    if (rest !== undefined)
      return readOption([`-${rest}`, ...argv.slice(index + 1)], 0, options, values) + index;
    if (spec.kind === 'toggle' && attached === undefined) refuseDetached(flag, argv[index + 1]);
    return index + 1;
  }
  const text = attached ?? argv[index + 1];
  if (text === undefined) throw usageError(`${flag} needs a value${placeholderOf(spec)}`);
  store(values, name, spec, flag, convert(flag, spec, text));
  return index + (attached === undefined ? 2 : 1);
}

/** The option that a word after two dashes names, by its name or its other name. */
export function longNamed(options: OptionSpecs, said: string): string | undefined {
  return Object.hasOwn(options, said)
    ? said
    : Object.keys(options).find((name) => options[name]?.alias === said);
}

function longOption(word: string, options: OptionSpecs): { name: string; attached?: string; rest?: string } {
  const equals = word.indexOf('=');
  const said = word.slice(2, equals < 0 ? undefined : equals);
  const name = longNamed(options, said);
  if (name === undefined)
    throw usageError(`unknown option --${said}${hint(closest(said, Object.keys(options)), '--')}`);
  return equals < 0 ? { name } : { name, attached: word.slice(equals + 1) };
}

/** `-n x`, `-nx`, `-n=x`, and flags in a row: `-wh`. */
function shortOption(word: string, options: OptionSpecs): { name: string; attached?: string; rest?: string } {
  const letter = word[1] ?? '';
  const found = Object.entries(options).find(([, spec]) => spec.short === letter);
  if (found === undefined) throw usageError(`unknown option -${letter}`);
  const [name, spec] = found;
  const after = word.slice(2);
  if (after === '') return { name };
  if (after.startsWith('=')) return { name, attached: after.slice(1) };
  return spec.kind === 'flag' || spec.kind === 'toggle' ? { name, rest: after } : { name, attached: after };
}

function store(values: Map<string, Value>, name: string, spec: OptionSpec, flag: string, value: Value): void {
  const before = values.get(name);
  if (spec.kind === 'list' && Array.isArray(before) && Array.isArray(value))
    values.set(name, [...before, ...value]);
  else if (before !== undefined && before !== value)
    throw usageError(`${flag} is given twice with different values`);
  else values.set(name, value);
}

function truth(flag: string, text: string): boolean {
  if (['yes', 'true', 'on'].includes(text.toLowerCase())) return true;
  if (['no', 'false', 'off'].includes(text.toLowerCase())) return false;
  throw usageError(`${flag}: "${text}" is neither yes nor no`);
}

function refuseDetached(flag: string, next: string | undefined): void {
  if (next !== undefined && ['yes', 'no', 'true', 'false'].includes(next.toLowerCase()))
    throw usageError(`write ${flag}=${next}, with an equals sign`);
}

function convert(flag: string, spec: OptionSpec, text: string): Value {
  if (spec.kind === 'integer') return integerOf(flag, text, spec.unit);
  if (spec.kind === 'gib') return gibOf(flag, text);
  if (spec.kind === 'choice') return oneOf(flag, spec.choices, text);
  if (spec.kind === 'list') return text.split(',').filter((part) => part !== '');
  return text;
}

function integerOf(flag: string, text: string, unit: string): number {
  if (!/^-?\d{1,15}$/.test(text)) throw usageError(`${flag}: "${text}" is not a whole number of ${unit}`);
  return Number(text);
}

const sizePattern = /^\d{1,15}(\.\d{1,9})?([KMGT]i?|k)?$/;

/** `4`, `1.5`, `4Gi`, `512Mi`: GiB. Memory has been said in GB and meant in GiB since 2.4.x: a number alone is of GiB. */
function gibOf(flag: string, text: string): number {
  if (!sizePattern.test(text))
    throw usageError(`${flag}: "${text}" is neither a number of GiB nor a size such as 4Gi or 512Mi`);
  return /\d$/.test(text)
    ? Number(text)
    : parseQuantity(text.replace('K', 'k').replace('ki', 'Ki'), flag) / 2 ** 30;
}

function oneOf(what: string, choices: readonly string[], text: string): string {
  if (choices.includes(text)) return text;
  throw usageError(
    `${what}: "${text}" is not one of ${choices.join(', ')}${hint(closest(text, choices), '')}`,
  );
}

function placeholderOf(spec: OptionSpec): string {
  if (spec.kind === 'choice') return `: ${spec.choices.join(', ')}`;
  return 'placeholder' in spec ? ` (${spec.placeholder})` : '';
}

function hint(suggestion: string | undefined, prefix: string): string {
  return suggestion === undefined ? '' : `; did you mean ${prefix}${suggestion}?`;
}

/** Words and options of one command, checked against what it declares. */
export function inputFor(command: Command, { words, values: given }: Words): Input {
  const named = argumentsFor(command, words);
  const values = withWords(command, named, given);
  const options: Record<string, Value | undefined> = {};
  for (const [name, spec] of Object.entries(command.options ?? {})) {
    options[name] = values.get(name) ?? absent(spec);
    if (spec.required === true && options[name] === undefined)
      throw usageError(`--${name} is missing; ${usage(command)}`);
  }
  for (const group of command.exactlyOne ?? []) requireExactlyOne(command, group, values);
  return { arguments: named, options } as unknown as Input;
}

/** The values of the options, with those that were given by their place. */
function withWords(
  command: Command,
  named: Record<string, string | string[] | undefined>,
  given: Map<string, Value>,
): Map<string, Value> {
  const values = new Map(given);
  for (const [name, word] of Object.entries(named)) {
    const spec = command.options?.[name];
    if (spec === undefined || typeof word !== 'string') continue;
    const what = `${argumentLabel(name)} (--${name})`;
    store(values, name, spec, what, convert(what, spec, word));
  }
  return values;
}

function absent(spec: OptionSpec): Value | undefined {
  if (spec.kind === 'flag') return false;
  if (spec.kind === 'list') return spec.clearable === true ? undefined : [];
  return 'fallback' in spec ? spec.fallback : undefined;
}

function requireExactlyOne(command: Command, group: readonly string[], values: Map<string, Value>): void {
  const given = group.filter((name) => values.has(name) && values.get(name) !== false);
  if (given.length === 1) return;
  const names = group.map((name) => `--${name}`).join(', ');
  throw usageError(
    given.length === 0
      ? `exactly one of ${names} is needed; ${usage(command)}`
      : `exactly one of ${names} may be given, not ${given.length}`,
  );
}

function argumentsFor(
  command: Command,
  words: readonly string[],
): Record<string, string | string[] | undefined> {
  const result: Record<string, string | string[] | undefined> = {};
  let rest = [...words];
  for (const [name, spec] of Object.entries(command.arguments ?? {})) {
    const taken = spec.variadic === true ? rest : rest.slice(0, 1);
    rest = rest.slice(taken.length);
    if (taken.length === 0 && spec.optional !== true)
      throw usageError(`${argumentLabel(name)} is missing; ${usage(command)}`);
    for (const word of taken) checkArgument(name, spec, word);
    result[name] = spec.variadic === true ? taken : taken[0];
  }
  if (rest.length > 0) throw usageError(`unexpected argument "${rest[0]}"; ${usage(command)}`);
  return result;
}

function checkArgument(name: string, spec: ArgumentSpec, word: string): void {
  if (word === '') throw usageError(`${argumentLabel(name)} is empty`);
  if (spec.choices !== undefined) oneOf(argumentLabel(name), spec.choices, word);
}

/** An argument as help and refusals write it: `newName` is `NEW_NAME`. */
export function argumentLabel(name: string): string {
  return name.replaceAll(/([a-z])([A-Z])/g, '$1_$2').toUpperCase();
}

/** `usage: svc3 vm get NAME [options]`. */
export function usage(command: Command): string {
  const words = Object.entries(command.arguments ?? {}).map(([name, spec]) => {
    const label = argumentLabel(name) + (spec.variadic === true ? '...' : '');
    return spec.optional === true ? `[${label}]` : label;
  });
  const required = Object.entries(command.options ?? {}).filter(
    ([name, spec]) => spec.required === true && !Object.hasOwn(command.arguments ?? {}, name),
  );
  const must = required.map(
    ([name, spec]) => `--${name}${'placeholder' in spec ? ` ${spec.placeholder}` : ''}`,
  );
  const one = (command.exactlyOne ?? []).map((group) => `(${group.map((name) => `--${name}`).join(' | ')})`);
  const optional = Object.keys(command.options ?? {}).length > required.length ? ['[options]'] : [];
  return ['usage: svc3', ...command.path, ...words, ...must, ...one, ...optional].join(' ');
}
