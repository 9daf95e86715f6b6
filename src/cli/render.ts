/** Pure rendering of lists and single items; nothing here writes. */
import { printable } from '../errors.ts';

/** One column of a table. */
export interface Column<T> {
  readonly header: string;
  value(item: T, now: Date): string | number | boolean | undefined;
  /** Only with `-o wide`. */
  readonly wide?: boolean;
  /** May be cut with an ellipsis where the terminal is too narrow. */
  readonly shrinks?: boolean;
  /** Coloured by meaning: green, yellow or red. */
  readonly state?: boolean;
}

/** How items of one kind are shown. */
export interface View<T> {
  /** Word for one of them in messages. */
  readonly kind: string;
  name(item: T): string;
  readonly columns: readonly Column<T>[];
}

/** How a table is drawn on this terminal. */
export interface TableStyle {
  readonly wide: boolean;
  readonly colour: boolean;
  /** Columns of the terminal; absent when the output is no terminal. */
  readonly width?: number;
  readonly now: Date;
  /** Least width per column, so that rows printed later stand under the first header. */
  readonly widths?: readonly number[];
}

const gap = '   ';
const smallestShrunk = 12;

/** The lines of a table, and the width of each column for lines that come later. */
export function tableRows<T>(
  view: View<T>,
  items: readonly T[],
  style: TableStyle,
): { header: string; rows: string[]; widths: number[] } {
  const columns = view.columns.filter((column) => style.wide || column.wide !== true);
  const cells = items.map((item) => columns.map((column) => cell(column.value(item, style.now))));
  const widths = columns.map((column, index) =>
    Math.max(
      column.header.length,
      style.widths?.[index] ?? 0,
      ...cells.map((row) => lengthOf(row[index] ?? '')),
    ),
  );
  shrink(columns, widths, style);
  const line = (row: readonly string[], paint: boolean) =>
    row
      .map((text, index) => {
        const column = columns[index];
        const width = widths[index] ?? 0;
        const cut = fit(text, width);
        const padded = index === row.length - 1 ? cut : cut + ' '.repeat(width - lengthOf(cut));
        return paint && column?.state === true ? coloured(padded, text) : padded;
      })
      .join(gap)
      .trimEnd();
  return {
    header: line(
      columns.map((column) => column.header),
      false,
    ),
    rows: cells.map((row) => line(row, style.colour)),
    widths,
  };
}

function cell(value: string | number | boolean | undefined): string {
  if (value === undefined || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return printable(String(value));
}

/** Cuts the last shrinking column down to what the terminal leaves. */
function shrink<T>(columns: readonly Column<T>[], widths: number[], style: TableStyle): void {
  if (style.width === undefined) return;
  const total = widths.reduce((sum, width) => sum + width, 0) + gap.length * (columns.length - 1);
  let over = total - style.width;
  for (let index = columns.length - 1; index >= 0 && over > 0; index -= 1) {
    if (columns[index]?.shrinks !== true) continue;
    const width = widths[index] ?? 0;
    const least = Math.min(width, smallestShrunk);
    const cut = Math.min(over, width - least);
    widths[index] = width - cut;
    over -= cut;
  }
}

function fit(text: string, width: number): string {
  return lengthOf(text) <= width
    ? text
    : `${charactersOf(text)
        .slice(0, Math.max(0, width - 1))
        .join('')}…`;
}

const segmenter = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** What a reader takes for one character each. */
export function charactersOf(text: string): string[] {
  // oxlint-disable-next-line no-control-regex -- plain ASCII, by far the most, needs no segmenter
  return /^[\u0000-\u007f]*$/.test(text)
    ? text.split('')
    : Array.from(segmenter.segment(text), ({ segment }) => segment);
}

function lengthOf(text: string): number {
  return charactersOf(text).length;
}

const good = new Set(['running', 'ready', 'true', 'accepted']);
const bad = new Set(['failed', 'not ready', 'refused', 'false', 'deleted']);
const waiting = new Set(['pending', 'updating', 'starting']);

function coloured(padded: string, text: string): string {
  const word = text.toLowerCase();
  const code = good.has(word) ? 32 : bad.has(word) ? 31 : waiting.has(word) ? 33 : undefined;
  return code === undefined ? padded : `\u001b[${code}m${padded}\u001b[0m`;
}

/** `5s`, `12m`, `3h`, `2d`: what has passed since an RFC 3339 time. */
export function age(since: string | undefined, now: Date): string | undefined {
  const start = since === undefined ? Number.NaN : Date.parse(since);
  if (Number.isNaN(start)) return undefined;
  const seconds = Math.max(0, Math.floor((now.getTime() - start) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 120 * 60) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
