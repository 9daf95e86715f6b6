/** Of a serial line: nothing on it tells a guest another size. */
export const size = { rows: 24, columns: 80 } as const;
/** Lines that have left the screen and can be scrolled back to. */
const keptLines = 500;
/** What begins a sequence and has no end after so many characters is none. */
const longestSequence = 4096;

/** Control characters that a control sequence goes on after; CAN, SUB and ESC end it, as on a VT100. */
const within = String.raw`\u0000-\u0017\u0019\u001c-\u001f\u007f`;
const introduced = String.raw`\[([<-?]?)([\d;:${within}]*)(?:[ -/][ -/${within}]*)?`;
/** What ends a string besides BEL and ST, of which the escape is enough: no title or the like has two lines. */
const string = String.raw`[\]PX^_][^\u0007\n\r\u0018\u001a\u001b]*`;
/** ECMA-48, 5.4 and 8.3.89: control sequences, colours of Linux' console (console_codes(4)), strings, and escapes of a few characters. */
const sequence = new RegExp(
  String.raw`\u001b(?:${introduced}(?:([@-~])|[\u0018\u001a]|(?=\u001b))|\](?:R|P[\dA-Fa-f]{7})|${string}(?:[\u0007\u0018\u001a]|(?=[\n\r\u001b]))|[ -/]+[0-~]|([0-OQ-WYZ\\\u0060-~]))`,
  'y',
);
/** What may become a sequence, at the end of what was written. */
const begun = new RegExp(String.raw`\u001b(?:${introduced}|${string}|[ -/]*)$`, 'y');
// oxlint-disable-next-line no-control-regex -- as above
const printable = /[^\u0000-\u001f\u007f]+/y;

/** The text that a log shows: without sequences, and with a line for each that was written. */
export function withoutSequences(text: string): string {
  return (
    text
      // Lines may end within a sequence.
      .replaceAll(new RegExp(sequence.source, 'g'), (found) => found.replaceAll(/[^\r\n]/g, ''))
      .replaceAll(/\r+\n/g, '\n')
      // oxlint-disable-next-line no-control-regex -- as above
      .replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '')
  );
}

type Row = readonly string[];

const blank = (): string[] => Array.from({ length: size.columns }, () => ' ');
const textOf = (row: Row): string => row.join('').trimEnd();
const bounded = (value: number, least: number, most: number): number =>
  Math.min(Math.max(value, least), most);

/** A line as it is shown; `id` stays with it while it moves. */
export interface Line {
  readonly id: number;
  readonly text: string;
}

/**
 * What a serial terminal shows: as much of a VT100 as shells, editors and installers use. Colours and other looks are left out, and every
 * character is one cell wide.
 */
export class Terminal {
  #past: Line[] = [];
  #nextId = 0;
  #screen: string[][] = Array.from({ length: size.rows }, blank);
  /** The screen under that of an editor. */
  #under: string[][] | undefined;
  #row = 0;
  #column = 0;
  #saved = { row: 0, column: 0 };
  #top = 0;
  #bottom: number = size.rows - 1;
  /** The beginning of a sequence whose end has not come. */
  #rest = '';
  #answer = '';
  #hasApplicationKeys = false;

  /** Whether the guest wants the arrow keys as an application's (DECCKM). */
  get hasApplicationKeys(): boolean {
    return this.#hasApplicationKeys;
  }

  get cursor(): { readonly id: number; readonly column: number } {
    return { id: this.#nextId + this.#row, column: Math.min(this.#column, size.columns - 1) };
  }

  /** Everything that can be seen, to the last line that holds something or the cursor. */
  get lines(): Line[] {
    const shown = this.#screen.map((row, index) => ({ id: this.#nextId + index, text: textOf(row) }));
    const last = Math.max(
      this.#row,
      shown.findLastIndex(({ text }) => text !== ''),
    );
    return [...this.#past, ...shown.slice(0, last + 1)];
  }

  /**
   * Takes what the guest has written.
   * @returns what a terminal says to it: where the cursor is, when it asks
   */
  write(written: string): string {
    this.#answer = '';
    const text = this.#rest + written;
    this.#rest = '';
    for (let at = 0; at < text.length;) {
      const run = matchAt(printable, text, at);
      if (run !== undefined) {
        this.#print(run[0]);
        at += run[0].length;
      } else if (text.charAt(at) === '\u001b') {
        const found = matchAt(sequence, text, at);
        if (found !== undefined) {
          this.#obey(found);
          at += found[0].length;
        } else if (text.length - at < longestSequence && matchAt(begun, text, at) !== undefined) {
          this.#rest = text.slice(at);
          break;
        } else at += 1;
      } else {
        this.#control(text.charAt(at));
        at += 1;
      }
    }
    return this.#answer;
  }

  #print(text: string): void {
    for (const character of text) {
      // The last column is written before the line is left.
      if (this.#column >= size.columns) {
        this.#column = 0;
        this.#feed();
      }
      this.#line()[this.#column] = character;
      this.#column += 1;
    }
  }

  #control(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\b') this.#column = Math.max(0, Math.min(this.#column, size.columns - 1) - 1);
    else if (character === '\t')
      this.#column = Math.min(size.columns - 1, (Math.floor(this.#column / 8) + 1) * 8);
    else if (character === '\n' || character === '\u000b' || character === '\u000c') this.#feed();
  }

  #line(row = this.#row): string[] {
    return this.#screen[row] ?? [];
  }

  /** To the next line; what is at the top of a full screen goes to the past. */
  #feed(): void {
    if (this.#row !== this.#bottom) {
      this.#row = Math.min(this.#row + 1, size.rows - 1);
      return;
    }
    const isWhole = this.#top === 0 && this.#under === undefined;
    if (isWhole) this.#keep(this.#line(0));
    this.#scroll(this.#top, 1);
  }

  #keep(row: Row): void {
    this.#past = [...this.#past, { id: this.#nextId, text: textOf(row) }].slice(-keptLines);
    this.#nextId += 1;
  }

  /** Moves the lines from `from` to the end of the region up, or down where `by` is negative. */
  #scroll(from: number, by: number): void {
    const count = Math.min(Math.abs(by), this.#bottom - from + 1);
    for (let left = count; left > 0; left -= 1) {
      this.#screen.splice(by > 0 ? from : this.#bottom, 1);
      this.#screen.splice(by > 0 ? this.#bottom : from, 0, blank());
    }
  }

  #obey([whole, prefix = '', given, final, escape]: RegExpExecArray): void {
    if (escape !== undefined) this.#escape(escape);
    if (given === undefined) return;
    // Control characters within a control sequence count as if they were before it.
    for (const character of whole.slice(1)) this.#control(character);
    if (final === undefined) return;
    const numbers = given
      .replaceAll(/[^\d;:]/g, '')
      .split(/[;:]/)
      .map(Number);
    if (prefix === '?' && (final === 'h' || final === 'l'))
      for (const mode of numbers) this.#mode(mode, final === 'h');
    else if (prefix === '') this.#obeyPlain(final, numbers);
  }

  #escape(escape: string): void {
    if (escape === '7') this.#save();
    else if (escape === '8') this.#restore();
    else if (escape === 'D') this.#feed();
    else if (escape === 'E') {
      this.#column = 0;
      this.#feed();
    } else if (escape === 'M' && this.#row === this.#top) this.#scroll(this.#top, -1);
    else if (escape === 'M') this.#row = Math.max(0, this.#row - 1);
    else if (escape === 'c') this.#reset();
  }

  #reset(): void {
    this.#under = undefined;
    this.#hasApplicationKeys = false;
    this.#region(1, size.rows);
    this.#erase(2);
  }

  #save(): void {
    this.#saved = { row: this.#row, column: this.#column };
  }

  #restore(): void {
    this.#row = this.#saved.row;
    this.#column = this.#saved.column;
  }

  #region(top: number, bottom: number): void {
    this.#top = bounded(top - 1, 0, size.rows - 2);
    this.#bottom = bounded(bottom - 1, this.#top + 1, size.rows - 1);
    this.#row = 0;
    this.#column = 0;
  }

  #mode(mode: number, isOn: boolean): void {
    if (mode === 1) this.#hasApplicationKeys = isOn;
    if (mode !== 47 && mode !== 1047 && mode !== 1049) return;
    if (isOn && this.#under === undefined) {
      this.#save();
      this.#under = this.#screen;
      this.#screen = Array.from({ length: size.rows }, blank);
    } else if (!isOn && this.#under !== undefined) {
      this.#screen = this.#under;
      this.#under = undefined;
      this.#restore();
    }
  }

  #obeyPlain(final: string, numbers: readonly number[]): void {
    const [first = 0, second = 0] = numbers;
    const count = bounded(first, 1, 1000);
    const column = Math.min(this.#column, size.columns - 1);
    const toRow = (row: number): void => void (this.#row = bounded(row, 0, size.rows - 1));
    const toColumn = (to: number): void => void (this.#column = bounded(to, 0, size.columns - 1));
    const acts: Readonly<Record<string, () => void>> = {
      A: () => toRow(this.#row - count),
      B: () => toRow(this.#row + count),
      e: () => toRow(this.#row + count),
      C: () => toColumn(column + count),
      a: () => toColumn(column + count),
      D: () => toColumn(column - count),
      E: () => (toRow(this.#row + count), toColumn(0)),
      F: () => (toRow(this.#row - count), toColumn(0)),
      G: () => toColumn(count - 1),
      '`': () => toColumn(count - 1),
      d: () => toRow(count - 1),
      H: () => (toRow(count - 1), toColumn(bounded(second, 1, size.columns) - 1)),
      f: () => (toRow(count - 1), toColumn(bounded(second, 1, size.columns) - 1)),
      J: () => this.#erase(first),
      K: () => this.#eraseLine(first),
      X: () => this.#line().fill(' ', column, column + count),
      P: () => this.#shift(column, count),
      '@': () => this.#shift(column, -count),
      L: () => this.#scrollFromCursor(-count),
      M: () => this.#scrollFromCursor(count),
      S: () => this.#scroll(this.#top, count),
      T: () => this.#scroll(this.#top, -count),
      r: () => this.#region(Math.max(1, first), second === 0 ? size.rows : second),
      s: () => this.#save(),
      u: () => this.#restore(),
      n: () => this.#tell(first, column),
      c: () => void (this.#answer += '\u001b[?1;0c'),
    };
    if (Object.hasOwn(acts, final)) acts[final]?.();
  }

  #tell(asked: number, column: number): void {
    if (asked === 5) this.#answer += '\u001b[0n';
    if (asked === 6) this.#answer += `\u001b[${this.#row + 1};${column + 1}R`;
  }

  #scrollFromCursor(by: number): void {
    if (this.#row >= this.#top && this.#row <= this.#bottom) this.#scroll(this.#row, by);
  }

  /** Takes cells out of the line, or puts blank ones into it where `by` is negative. */
  #shift(column: number, by: number): void {
    const line = this.#line();
    const count = Math.min(Math.abs(by), size.columns - column);
    const blanks = Array.from({ length: count }, () => ' ');
    if (by > 0) {
      line.splice(column, count);
      line.push(...blanks);
    } else {
      line.splice(column, 0, ...blanks);
      line.length = size.columns;
    }
  }

  #eraseLine(what: number): void {
    const column = Math.min(this.#column, size.columns - 1);
    this.#line().fill(' ', what === 0 ? column : 0, what === 1 ? column + 1 : size.columns);
  }

  #erase(what: number): void {
    const [from, to] = what === 0 ? [this.#row + 1, size.rows] : [0, what === 1 ? this.#row : size.rows];
    for (let row = from; row < to; row += 1) this.#line(row).fill(' ');
    if (what < 2) this.#eraseLine(what);
  }
}

/** A match of a sticky expression at this very place. */
function matchAt(expression: RegExp, text: string, at: number): RegExpExecArray | undefined {
  expression.lastIndex = at;
  return expression.exec(text) ?? undefined;
}

const named: Readonly<Record<string, string>> = {
  Enter: '\r',
  Backspace: '\u007f',
  Tab: '\t',
  Escape: '\u001b',
  Delete: '\u001b[3~',
  Insert: '\u001b[2~',
  PageUp: '\u001b[5~',
  PageDown: '\u001b[6~',
  F1: '\u001bOP',
  F2: '\u001bOQ',
  F3: '\u001bOR',
  F4: '\u001bOS',
  F5: '\u001b[15~',
  F6: '\u001b[17~',
  F7: '\u001b[18~',
  F8: '\u001b[19~',
  F9: '\u001b[20~',
  F10: '\u001b[21~',
};
/** These follow the mode of the keys. */
const arrows: Readonly<Record<string, string>> = {
  ArrowUp: 'A',
  ArrowDown: 'B',
  ArrowRight: 'C',
  ArrowLeft: 'D',
  Home: 'H',
  End: 'F',
};

export interface Key {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly altKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
}

/**
 * What a key sends that is no plain character; undefined: what the browser makes of it, as text, or a command of its own.
 *
 * @param isMac - whose Option, which is Alt to a browser, is what AltGr is to others: it types `@`, `[` and `|` on many keyboards
 */
export function sentBy(
  { key, ctrlKey, altKey, metaKey, shiftKey }: Key,
  { hasApplicationKeys, isMac }: { readonly hasApplicationKeys: boolean; readonly isMac: boolean },
): string | undefined {
  // Both together are AltGr of many keyboards.
  if (metaKey || (ctrlKey && altKey)) return undefined;
  if (key === 'Tab' && shiftKey) return '\u001b[Z';
  if (Object.hasOwn(arrows, key)) return `\u001b${hasApplicationKeys ? 'O' : '['}${arrows[key] ?? ''}`;
  if (Object.hasOwn(named, key)) return named[key];
  if (ctrlKey) return controlOf(key, shiftKey);
  return altKey && !isMac && key.length === 1 ? `\u001b${key}` : undefined;
}

/** Ctrl with a letter or one of `@[\]^_` (ECMA-48, 5.2); what browsers paste and copy with stays theirs. */
function controlOf(key: string, isShifted: boolean): string | undefined {
  const upper = key.toUpperCase();
  if (upper === 'V' || (isShifted && upper === 'C')) return undefined;
  if (key === ' ') return '\u0000';
  return /^[@-_]$/.test(upper) ? String.fromCharCode(upper.charCodeAt(0) - 64) : undefined;
}
