import { describe, expect, test } from 'vitest';
import { sentBy, size, Terminal, withoutSequences } from '../../../../../src/http/ui/page/terminal.ts';

const shown = (...written: string[]): string[] => {
  const terminal = new Terminal();
  for (const text of written) terminal.write(text);
  return terminal.lines.map(({ text }) => text);
};

test.each([
  ['lines', ['one\r\ntwo'], ['one', 'two']],
  ['a line feed alone, which keeps the column', ['one\ntwo'], ['one', '   two']],
  ['a line that is written over', ['loading 10%\rloading 99%'], ['loading 99%']],
  ['a character that is taken back', ['ab\b \bc'], ['ac']],
  ['tabs', ['a\tb'], ['a       b']],
  ['colours, which are left out', ['\u001b[1;32mok\u001b[0m'], ['ok']],
  ['a title, which is left out', ['\u001b]0;root@web\u0007$'], ['$']],
  ['a sequence that comes in pieces', ['a\u001b', '[', '1;3', 'Hb'], ['a b']],
  ['a title that comes in pieces', ['\u001b]0;ro', 'ot\u0007$'], ['$']],
  ['a screen that is cleared', ['old\u001b[2J\u001b[Hnew'], ['new']],
  ['the rest of a line that is cleared', ['abc\u001b[1G\u001b[K'], ['']],
  ['characters that are deleted', ['abcd\u001b[2G\u001b[2P'], ['ad']],
  ['characters that are inserted', ['ad\u001b[2G\u001b[2@bc'], ['abcd']],
  ['a place that is written to', ['\u001b[3;5Hx'], ['', '', '    x']],
  [
    'a place beyond the screen',
    ['\u001b[999;999Hx'],
    [...Array.from({ length: 23 }, () => ''), `${' '.repeat(79)}x`],
  ],
  ['a line that is inserted', ['a\r\nb\u001b[1;1H\u001b[L'], ['', 'a', 'b']],
  ['a line that is deleted', ['a\r\nb\u001b[1;1H\u001b[M'], ['b']],
  ['an editor that gives the screen back', ['$ vi\u001b[?1049h\u001b[2Jtext\u001b[?1049l!'], ['$ vi!']],
  ['letters of any language', ['größe – ☃'], ['größe – ☃']],
])('a terminal shows %s', (_, written, lines) => {
  expect(shown(...written)).toEqual(lines);
});

test.each([
  ['\u001b[<u', ['hello world', 'prompt#']],
  ['\u001b[<1u', ['hello world', 'prompt#']],
  ['\u001b\u001b', ['helloorld', 'prompt#']],
  ['\u001b]P0000000', ['hello world', 'prompt#']],
  ['\u001b]R', ['hello world', 'prompt#']],
  ['\u001b[0;1\r', ['orldo', 'prompt#']],
  ['\u001b[0;1\u0018', ['hello world', 'prompt#']],
  ['\u001b[0;1\u001b[0m', ['hello world', 'prompt#']],
  ['\u001b\u0000', ['hello world', 'prompt#']],
  ['\u001bé', ['helloé world', 'prompt#']],
  ['\u001b[1é', ['hello[1é world', 'prompt#']],
  ['\u001b\r\n', ['hello', ' world', 'prompt#']],
  ['\u001bP', ['hello', 'prompt#']],
  ['\u001b]0;title\u001b[0m', ['hello world', 'prompt#']],
  ['\u001b]0;title\u001b\\', ['hello world', 'prompt#']],
])('a terminal goes on after %j, in one piece or in many', (begun, lines) => {
  const written = `hello${begun} world\r\nprompt# `;
  expect(shown(written)).toEqual(lines);
  expect(shown(...Array.from(written))).toEqual(lines);
});

test('a line that is longer than the screen goes on in the next, at its last column not yet', () => {
  const full = 'x'.repeat(size.columns);
  expect(shown(full)).toEqual([full]);
  expect(shown(`${full}\r\ny`)).toEqual([full, 'y']);
  expect(shown(`${full}y`)).toEqual([full, 'y']);
});

test('what leaves the screen can be scrolled back to, and lines keep who they are', () => {
  const terminal = new Terminal();
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  terminal.write(lines.join('\r\n'));
  const before = terminal.lines;
  expect(before.map(({ text }) => text)).toEqual(lines);
  terminal.write('\r\nline 30');
  expect(terminal.lines.slice(0, 30)).toEqual(before);
  for (let at = 0; at < 1000; at += 1) terminal.write('\r\nmore');
  expect(terminal.lines.length).toBe(500 + size.rows);
  expect(new Set(terminal.lines.map(({ id }) => id)).size).toBe(terminal.lines.length);
});

test('a region scrolls by itself, and nothing of it goes to the past', () => {
  const terminal = new Terminal();
  terminal.write('top\u001b[2;4r\u001b[2;1Ha\r\nb\r\nc\r\nd');
  expect(terminal.lines.map(({ text }) => text)).toEqual(['top', 'b', 'c', 'd']);
});

test.each([
  ['where the cursor is', 'ab\u001b[6n', '\u001b[1;3R'],
  ['that all is well', '\u001b[5n', '\u001b[0n'],
  ['what it is', '\u001b[c', '\u001b[?1;0c'],
  ['nothing else', '\u001b[?6n\u001b[>c\u001b[0q text', ''],
])('a guest that asks is told %s', (_, written, answer) => {
  expect(new Terminal().write(written)).toBe(answer);
});

test('what a guest writes ends nowhere and takes no room without end', () => {
  const terminal = new Terminal();
  terminal.write(`\u001b]0;${'x'.repeat(10_000)}`);
  terminal.write('\u001b[999999999999S\u001b[999999999999L\u001b[999999999999@\u001b[0;0r\u001b[24;1r');
  terminal.write('\u001b[5;5;5;5;5z\u001b[constructorm\u001b[?99999h');
  terminal.write('\u001bc\u001b[Hstill here');
  expect(terminal.lines.at(-1)?.text).toBe('still here');
  expect(terminal.lines.every(({ text }) => text.length <= size.columns)).toBe(true);
});

test('what a guest writes takes no more time than its length', () => {
  expect(shown(`\u001b[${'\u0000'.repeat(200_000)}é`)).toEqual(['[é']);
});

test('a log is text', () => {
  expect(withoutSequences('\u001b[2J\u001b[Hboot\r\r\n\u001b[0;32m OK \u001b[0m\u0007\r\nend')).toBe(
    'boot\n OK \nend',
  );
  expect(withoutSequences('boot\u001b[0;1\r\nmone')).toBe('boot\none');
});

describe('a key', () => {
  const none = { ctrlKey: false, altKey: false, metaKey: false, shiftKey: false };
  test.each([
    ['a', {}, undefined],
    ['Enter', {}, '\r'],
    ['Backspace', {}, '\u007f'],
    ['Tab', {}, '\t'],
    ['Tab', { shiftKey: true }, '\u001b[Z'],
    ['Escape', {}, '\u001b'],
    ['ArrowUp', {}, '\u001b[A'],
    ['End', {}, '\u001b[F'],
    ['Delete', {}, '\u001b[3~'],
    ['c', { ctrlKey: true }, '\u0003'],
    ['C', { ctrlKey: true, shiftKey: true }, undefined],
    ['v', { ctrlKey: true }, undefined],
    ['[', { ctrlKey: true }, '\u001b'],
    [']', { ctrlKey: true }, '\u001d'],
    [' ', { ctrlKey: true }, '\u0000'],
    ['b', { altKey: true }, '\u001bb'],
    ['@', { ctrlKey: true, altKey: true }, undefined],
    ['c', { metaKey: true }, undefined],
    ['F5', {}, '\u001b[15~'],
    ['Control', { ctrlKey: true }, undefined],
    ['Shift', { shiftKey: true }, undefined],
    ['Unidentified', {}, undefined],
  ])('%s with %j sends %j', (key, held, sent) => {
    expect(sentBy({ key, ...none, ...held }, { hasApplicationKeys: false, isMac: false })).toBe(sent);
  });

  test.each([
    ['@', { altKey: true }, undefined],
    ['|', { altKey: true, shiftKey: true }, undefined],
    ['Dead', { altKey: true }, undefined],
    ['Backspace', { altKey: true }, '\u007f'],
    ['c', { ctrlKey: true }, '\u0003'],
  ])('%s of a Mac with %j sends %j', (key, held, sent) => {
    expect(sentBy({ key, ...none, ...held }, { hasApplicationKeys: false, isMac: true })).toBe(sent);
  });

  test('is an application’s while the guest asks for that', () => {
    const terminal = new Terminal();
    terminal.write('\u001b[?1h');
    const { hasApplicationKeys } = terminal;
    expect(sentBy({ key: 'ArrowUp', ...none }, { hasApplicationKeys, isMac: false })).toBe('\u001bOA');
    terminal.write('\u001b[?1l');
    expect(terminal.hasApplicationKeys).toBe(false);
  });
});
