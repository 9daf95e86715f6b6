import type { Environment } from './environment.ts';
import { usageError } from './usage.ts';
import { closest } from './closest.ts';
import { charactersOf, printable, tableRows, type View } from './render.ts';

/** What `-o` takes with every command. */
export const commonFormats = ['table', 'wide', 'json', 'yaml', 'name'] as const;

/** What a command says. Results go to stdout; warnings and progress to stderr. */
export interface Output {
  readonly format: string;
  list<T>(view: View<T>, items: readonly T[]): Promise<void>;
  /** One item: the same table with one row, or the bare object. */
  item<T>(view: View<T>, item: T): Promise<void>;
  /** Prints the first list, then every item that is new, changed or gone in a later one. */
  watch<T>(view: View<T>, lists: AsyncIterable<readonly T[]>): Promise<void>;
  /** A value that has no table: pretty text in a table's place. */
  value(value: unknown, text: string): Promise<void>;
  /** Says that something was done to a named thing. */
  done(kind: string, name: string, message: string): Promise<void>;
  line(text: string): void;
  /** What is about to happen, on stderr; a script that reads JSON or YAML is told nothing. */
  note(text: string): void;
  /** On stderr; for a script that reads JSON or YAML a member `warnings` of what is printed. */
  warning(text: string): void;
  /** Overwrites one line on a terminal; says nothing elsewhere. */
  progress(text: string): void;
  /** Says on stderr what has found no place in what was printed; once, at the end of a command. */
  flush(): void;
}

/** Writes in one format; `format` is one that `checkedFormat` let through. */
export function createOutput(environment: Environment, format: string): Output {
  const { stdout, stderr } = environment;
  const colour = usesColour(environment);
  const style = () => ({
    wide: format === 'wide',
    colour,
    now: environment.now(),
    ...(stdout.isTTY === true && stdout.columns !== undefined ? { width: stdout.columns } : {}),
  });
  let progressShown = false;
  const clearProgress = () => {
    if (progressShown) stderr.write('\r\u001b[K');
    progressShown = false;
  };
  const line = (text: string) => {
    clearProgress();
    stdout.write(`${text}\n`);
  };
  const isStructured = format === 'json' || format === 'yaml';
  // Pipelines take every word on stderr for a failure.
  const isForScript = isStructured && stderr.isTTY !== true;
  let warnings: string[] = [];
  const structured = async (value: unknown) => {
    const whole = withWarnings(value, warnings);
    if (whole !== value) warnings = [];
    if (format === 'json') line(JSON.stringify(whole, null, 2));
    else line((await toYaml(whole)).trimEnd());
  };
  const say = (text: string) => {
    clearProgress();
    stderr.write(`${printable(text)}\n`);
  };
  const table = <T>(view: View<T>, items: readonly T[]) => {
    if (format === 'name') {
      for (const item of items) line(view.name(item));
      return;
    }
    const { header, rows } = tableRows(view, items, style());
    line([header, ...rows].join('\n'));
  };
  const output: Output = {
    format,
    line,
    async list(view, items) {
      if (isStructured) await structured(items);
      else if (items.length === 0 && format !== 'name') line(`No ${view.kind}s found.`);
      else table(view, items);
    },
    async item(view, item) {
      if (isStructured) await structured(item);
      else table(view, [item]);
    },
    async value(value, text) {
      if (isStructured) await structured(value);
      else line(text);
    },
    async done(kind, name, message) {
      if (isStructured) await structured({ kind, name, status: 'Success', message });
      else line(format === 'name' ? name : message);
    },
    note(text) {
      if (!isForScript) say(text);
    },
    warning(text) {
      if (isForScript) warnings.push(text);
      else say(`Warning: ${text}`);
    },
    flush() {
      for (const text of warnings) say(`Warning: ${text}`);
      warnings = [];
    },
    progress(text) {
      if (stderr.isTTY !== true) return;
      const width = (stderr.columns ?? 80) - 1;
      stderr.write(`\r\u001b[K${charactersOf(printable(text)).slice(0, width).join('')}`);
      progressShown = true;
    },
    watch: (view, lists) => watchItems({ view, lists, format, line, style }),
  };
  return output;
}

/** A format the command knows, or a usage error with a suggestion. */
export function checkedFormat(format: string | undefined, more: readonly string[]): string {
  const formats = [...commonFormats, ...more];
  if (format === undefined || formats.includes(format)) return format ?? 'table';
  const suggestion = closest(format, formats);
  throw usageError(
    `-o: "${format}" is not one of ${formats.join(', ')}${suggestion === undefined ? '' : `; did you mean ${suggestion}?`}`,
  );
}

/** On a terminal, unless `NO_COLOR` or a dumb terminal says otherwise. */
export function usesColour(environment: Environment): boolean {
  const { NO_COLOR, TERM } = environment.variables;
  return environment.stdout.isTTY === true && (NO_COLOR === undefined || NO_COLOR === '') && TERM !== 'dumb';
}

/** The value with a member `warnings`, each of a list's items; the very same where there is nothing to put one on. */
function withWarnings(value: unknown, warnings: readonly string[]): unknown {
  if (warnings.length === 0 || typeof value !== 'object' || value === null) return value;
  if (!Array.isArray(value)) return { ...value, warnings };
  return value.length === 0 ? value : value.map((item: object) => ({ ...item, warnings }));
}

async function toYaml(value: unknown): Promise<string> {
  const { stringify } = await import('yaml');
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

interface WatchOptions<T> {
  readonly view: View<T>;
  readonly lists: AsyncIterable<readonly T[]>;
  readonly format: string;
  readonly line: (text: string) => void;
  readonly style: () => Parameters<typeof tableRows>[2];
}

async function watchItems<T>(options: WatchOptions<T>): Promise<void> {
  const { view, lists, format, line } = options;
  let known = new Map<string, { text: string; item: T }>();
  let widths: readonly number[] | undefined;
  const print = async (items: readonly T[]) => {
    if (format === 'json') for (const item of items) line(JSON.stringify(item));
    else if (format === 'yaml') for (const item of items) line(`---\n${(await toYaml(item)).trimEnd()}`);
    else if (format === 'name') for (const item of items) line(view.name(item));
    else {
      const drawn = tableRows(view, items, {
        ...options.style(),
        ...(widths === undefined ? {} : { widths }),
      });
      if (widths === undefined) line(drawn.header);
      widths = drawn.widths;
      for (const row of drawn.rows) line(row);
    }
  };
  for await (const items of lists) {
    const next = new Map(items.map((item) => [view.name(item), { text: JSON.stringify(item), item }]));
    const changed = items.filter(
      (item) => known.get(view.name(item))?.text !== next.get(view.name(item))?.text,
    );
    const gone = [...known].filter(([name]) => !next.has(name)).map(([, { item }]) => asDeleted(item));
    if (widths === undefined || changed.length + gone.length > 0) await print([...gone, ...changed]);
    known = next;
  }
}

/** The last known item with its state replaced, so that a watcher sees it go. */
function asDeleted<T>(item: T): T {
  if (typeof item !== 'object' || item === null) return item;
  const state = 'state' in item ? 'state' : 'phase' in item ? 'phase' : 'status';
  return { ...item, [state]: 'Deleted' };
}
