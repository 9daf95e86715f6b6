import { Svc3Error, invalidField } from '../../errors.ts';
import type { JsonValue } from '../../wire/fields.ts';

const maxDepth = 64;
const numberPattern = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const whitespace = /[ \t\n\r]*/y;
const literals: readonly (readonly [string, JsonValue])[] = [
  ['true', true],
  ['false', false],
  ['null', null],
];

interface Cursor {
  readonly text: string;
  at: number;
}

function malformed(cursor: Cursor, what: string): Svc3Error {
  const message = `body: malformed JSON at character ${cursor.at}: ${what}`;
  return new Svc3Error('BadRequest', message, { details: { causes: [{ field: 'body', message }] } });
}

function skipWhitespace(cursor: Cursor): void {
  whitespace.lastIndex = cursor.at;
  whitespace.test(cursor.text);
  cursor.at = whitespace.lastIndex;
}

function readString(cursor: Cursor, path: string): string {
  const start = cursor.at;
  let end = start + 1;
  for (;;) {
    end = cursor.text.indexOf('"', end);
    if (end < 0) throw malformed(cursor, 'a string does not end');
    let slashes = 0;
    while (cursor.text[end - 1 - slashes] === '\\') slashes += 1;
    if (slashes % 2 === 0) break;
    end += 1;
  }
  cursor.at = end + 1;
  let value: unknown;
  try {
    value = JSON.parse(cursor.text.slice(start, end + 1));
  } catch {
    cursor.at = start;
    throw malformed(cursor, 'a string has a control character or a wrong escape');
  }
  if (typeof value !== 'string') throw malformed(cursor, 'a string is expected');
  if (value.includes('\0')) throw invalidField(path, 'must not contain the character NUL');
  if (!value.isWellFormed()) throw invalidField(path, 'must not contain a lone surrogate');
  return value;
}

function readNumber(cursor: Cursor, path: string): number {
  numberPattern.lastIndex = cursor.at;
  const text = numberPattern.exec(cursor.text)?.[0];
  if (text === undefined) throw malformed(cursor, 'a value is expected');
  cursor.at += text.length;
  const value = Number(text);
  if (!Number.isFinite(value)) throw invalidField(path, 'is too large a number');
  return value;
}

function readArray(cursor: Cursor, path: string, depth: number): JsonValue[] {
  const items: JsonValue[] = [];
  cursor.at += 1;
  skipWhitespace(cursor);
  if (cursor.text[cursor.at] === ']') {
    cursor.at += 1;
    return items;
  }
  for (;;) {
    items.push(readValue(cursor, `${path}[${items.length}]`, depth + 1));
    skipWhitespace(cursor);
    const next = cursor.text[cursor.at];
    if (next !== ',' && next !== ']') throw malformed(cursor, '"," or "]" is expected');
    cursor.at += 1;
    if (next === ']') return items;
  }
}

function readKey(cursor: Cursor, path: string): string {
  skipWhitespace(cursor);
  if (cursor.text[cursor.at] !== '"') throw malformed(cursor, 'a field name is expected');
  const key = readString(cursor, path === '' ? 'body' : path);
  skipWhitespace(cursor);
  if (cursor.text[cursor.at] !== ':') throw malformed(cursor, '":" is expected');
  cursor.at += 1;
  return key;
}

function readObject(cursor: Cursor, path: string, depth: number): { [key: string]: JsonValue } {
  const object: { [key: string]: JsonValue } = {};
  cursor.at += 1;
  skipWhitespace(cursor);
  if (cursor.text[cursor.at] === '}') {
    cursor.at += 1;
    return object;
  }
  for (;;) {
    const key = readKey(cursor, path);
    const field = path === '' ? key : `${path}.${key}`;
    if (key === '__proto__') throw invalidField(field, 'is not a field name', 'FieldValueForbidden');
    if (Object.hasOwn(object, key)) throw invalidField(field, 'is given twice', 'FieldValueDuplicate');
    object[key] = readValue(cursor, field, depth + 1);
    skipWhitespace(cursor);
    const next = cursor.text[cursor.at];
    if (next !== ',' && next !== '}') throw malformed(cursor, '"," or "}" is expected');
    cursor.at += 1;
    if (next === '}') return object;
  }
}

function readValue(cursor: Cursor, path: string, depth: number): JsonValue {
  skipWhitespace(cursor);
  const next = cursor.text[cursor.at];
  if (depth >= maxDepth && (next === '{' || next === '['))
    throw malformed(cursor, `nested more than ${maxDepth} deep`);
  if (next === '{') return readObject(cursor, path, depth);
  if (next === '[') return readArray(cursor, path, depth);
  if (next === '"') return readString(cursor, path === '' ? 'body' : path);
  for (const [word, value] of literals)
    if (cursor.text.startsWith(word, cursor.at)) {
      cursor.at += word.length;
      return value;
    }
  return readNumber(cursor, path === '' ? 'body' : path);
}

/**
 * Reads one JSON document as RFC 8259 says, and refuses what JSON.parse lets through: a field given twice,
 * `__proto__`, NUL, lone surrogates, infinite numbers, more than 64 levels. Empty input is `undefined`.
 * Malformed input is BadRequest, a refused field is Invalid with the field's path.
 */
export function parseJson(bytes: Uint8Array): JsonValue | undefined {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    const message = 'body: is not valid UTF-8';
    throw new Svc3Error('BadRequest', message, {
      details: { causes: [{ field: 'body', message }] },
      cause: error,
    });
  }
  const cursor: Cursor = { text, at: 0 };
  skipWhitespace(cursor);
  if (cursor.at === text.length) return undefined;
  const value = readValue(cursor, '', 0);
  skipWhitespace(cursor);
  if (cursor.at !== text.length) throw malformed(cursor, 'something follows the document');
  return value;
}
