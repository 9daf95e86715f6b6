/** Keys of a US keyboard: code, character, character with Shift. */
const keys = [
  ['Backquote', '`', '~'],
  ['Minus', '-', '_'],
  ['Equal', '=', '+'],
  ['BracketLeft', '[', '{'],
  ['BracketRight', ']', '}'],
  ['Backslash', '\\', '|'],
  ['Semicolon', ';', ':'],
  ['Quote', "'", '"'],
  ['Comma', ',', '<'],
  ['Period', '.', '>'],
  ['Slash', '/', '?'],
  ['Space', ' ', ' '],
  ...Array.from('0123456789', (digit, index) => [`Digit${digit}`, digit, ')!@#$%^&*('[index]]),
  ...Array.from('abcdefghijklmnopqrstuvwxyz', (letter) => [
    `Key${letter.toUpperCase()}`,
    letter,
    letter.toUpperCase(),
  ]),
];

const strokes = new Map([
  ['\n', { keysym: 0xff0d, code: 'Enter', shift: false }],
  ['\t', { keysym: 0xff09, code: 'Tab', shift: false }],
]);
for (const [code, plain, shifted] of keys) {
  strokes.set(shifted, { keysym: shifted.charCodeAt(0), code, shift: true });
  strokes.set(plain, { keysym: plain.charCodeAt(0), code, shift: false });
}

/** The key strokes that type a text, and how many of its characters have none. */
export function strokesOf(text) {
  const found = Array.from(text.replaceAll('\r\n', '\n'), (character) => strokes.get(character));
  const known = found.filter((stroke) => stroke !== undefined);
  return { strokes: known, unknown: found.length - known.length };
}
