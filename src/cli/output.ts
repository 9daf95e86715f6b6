import type { Environment } from './environment.ts';
import { usageError } from './usage.ts';
import { closest } from './closest.ts';
import { printable } from '../errors.ts';
import { charactersOf, tableRows, type View } from './render.ts';

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
  /** A value that has no table: pretty text in a table's place, whose control characters but for line breaks are not printed. */
  value(value: unknown, text: string): Promise<void>;
  /** Says that something was done to a named thing; of a message that quotes others only the line breaks are printed as they are. */
  done(kind: string, name: string, message: string): Promise<void>;
  line(text: string): void;
  /** What is about to happen, on stderr; a script that reads JSON or YAML is told nothing. */
  note(text: string): void;
  /** On stderr; for a script that reads JSON or YAML a member `warnings` of what is printed. */
  warning(text: string): void;
  /** Overwrites one line on a terminal; says nothing elsewhere. */
  progress(text: string): void;
  /** Clears the line of progress and says on stderr what has found no place in what was printed: at the end, or before another program writes. */
  flush(): void;
}

/** Writes in one format; `format` is one that `checkedFormat` let through. */
export function createOutput(environment: Environment, format: string): Output {
  return new FormattedOutput(environment, format);
}

class FormattedOutput implements Output {
  readonly format: string;
  readonly #environment: Environment;
  readonly #colour: boolean;
  readonly #isStructured: boolean;
  /** Pipelines take every word on stderr for a failure. */
  readonly #isForScript: boolean;
  #warnings: string[] = [];
  #progressShown = false;
  /** Whether a document stands there already, from which the next one of YAML is to be told. */
  #hasPrinted = false;

  constructor(environment: Environment, format: string) {
    this.format = format;
    this.#environment = environment;
    this.#colour = usesColour(environment);
    this.#isStructured = format === 'json' || format === 'yaml';
    this.#isForScript = this.#isStructured && environment.stderr.isTTY !== true;
  }

  async list<T>(view: View<T>, items: readonly T[]): Promise<void> {
    if (this.#isStructured) await this.#structured(items);
    else if (items.length === 0 && this.format !== 'name') this.line(`No ${view.kind}s found.`);
    else this.#table(view, items);
  }

  async item<T>(view: View<T>, item: T): Promise<void> {
    if (this.#isStructured) await this.#structured(item);
    else this.#table(view, [item]);
  }

  watch<T>(view: View<T>, lists: AsyncIterable<readonly T[]>): Promise<void> {
    const { format } = this;
    return watchItems({
      view,
      lists,
      format,
      line: (text) => this.line(text),
      style: () => this.#style(),
    });
  }

  async value(value: unknown, text: string): Promise<void> {
    if (this.#isStructured) await this.#structured(value);
    else this.line(printableLines(text));
  }

  async done(kind: string, name: string, message: string): Promise<void> {
    if (this.#isStructured) await this.#structured({ kind, name, status: 'Success', message });
    else this.line(this.format === 'name' ? printable(name) : printableLines(message));
  }

  line(text: string): void {
    this.#clearProgress();
    this.#environment.stdout.write(`${text}\n`);
  }

  note(text: string): void {
    if (!this.#isForScript) this.#say(text);
  }

  warning(text: string): void {
    if (this.#isForScript) this.#warnings.push(text);
    else this.#say(`Warning: ${text}`);
  }

  progress(text: string): void {
    const { stderr } = this.#environment;
    if (stderr.isTTY !== true) return;
    const width = (stderr.columns ?? 80) - 1;
    stderr.write(`\r\u001b[K${charactersOf(printable(text)).slice(0, width).join('')}`);
    this.#progressShown = true;
  }

  flush(): void {
    this.#clearProgress();
    for (const text of this.#warnings) this.#say(`Warning: ${text}`);
    this.#warnings = [];
  }

  #say(text: string): void {
    this.#clearProgress();
    this.#environment.stderr.write(`${printable(text)}\n`);
  }

  #clearProgress(): void {
    if (this.#progressShown) this.#environment.stderr.write('\r\u001b[K');
    this.#progressShown = false;
  }

  async #structured(value: unknown): Promise<void> {
    const whole = withWarnings(value, this.#warnings);
    if (whole !== value) this.#warnings = [];
    if (this.format === 'json') this.line(JSON.stringify(whole, null, 2));
    else this.line(`${this.#hasPrinted ? '---\n' : ''}${(await toYaml(whole)).trimEnd()}`);
    this.#hasPrinted = true;
  }

  #table<T>(view: View<T>, items: readonly T[]): void {
    if (this.format === 'name') {
      for (const item of items) this.line(printable(view.name(item)));
      return;
    }
    const { header, rows } = tableRows(view, items, this.#style());
    this.line([header, ...rows].join('\n'));
  }

  #style(): Parameters<typeof tableRows>[2] {
    const { stdout } = this.#environment;
    return {
      wide: this.format === 'wide',
      colour: this.#colour,
      now: this.#environment.now(),
      ...(stdout.isTTY === true && stdout.columns !== undefined ? { width: stdout.columns } : {}),
    };
  }
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

/** Text of several lines whose parts may be of others: control characters but for the line breaks are spaces. */
function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
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
    else if (format === 'name') for (const item of items) line(printable(view.name(item)));
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
