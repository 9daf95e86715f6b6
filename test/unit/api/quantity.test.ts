import { expect, test } from 'vitest';
import { formatGi, formatQuantity, parseMilli, parseQuantity, toGi } from '../../../src/api/quantity.ts';

test.each([
  ['1', 1],
  ['1k', 1000],
  ['1Ki', 1024],
  ['256Mi', 268_435_456],
  ['2.5Gi', 2_684_354_560],
  ['.5Gi', 536_870_912],
  ['5.Mi', 5_242_880],
  ['1e3', 1000],
  ['1E3', 1000],
  ['2E', 2e18],
  ['100m', 1],
  ['100n', 1],
  ['16Ti', 17_592_186_044_416],
  ['-1500m', -1],
  [' 4Gi ', 4_294_967_296],
])('the quantity %j is %d whole units, fractions rounded up', (text, value) => {
  expect(parseQuantity(text)).toBe(value);
});

test.each([
  ['250m', 250n],
  ['1.5', 1500n],
  ['2', 2000n],
  ['1n', 1n],
  ['1Ki', 1_024_000n],
])('the quantity %j is %d thousandths', (text, value) => {
  expect(parseMilli(text)).toBe(value);
});

test.each(['', ' ', '.', 'Gi', '1 Gi', '1.5.5', '1gi', '1KiB', '0x10', '1e999', '٣', '--1'])(
  '%j is no quantity, and the error names the field',
  (text) => {
    expect(() => parseQuantity(text, 'spec.memory')).toThrow(`spec.memory: "${text}" is not a quantity`);
  },
);

test('an absurdly long text is cut in the error', () => {
  expect(() => parseQuantity('x'.repeat(100_000))).toThrow(/^quantity: "x{64}" is not a quantity$/);
});

test.each([
  [268_435_456, '256Mi'],
  [2_684_354_560, '2560Mi'],
  [1000, '1000'],
  [0, '0'],
  [1024 ** 4, '1Ti'],
])('%d bytes are written as %s, which means the same again', (bytes, text) => {
  expect(formatQuantity(bytes)).toBe(text);
  expect(parseQuantity(text)).toBe(bytes);
});

test('GiB are shown with two digits', () => {
  expect(formatGi(5_153_960_755)).toBe('4.80Gi');
  expect(toGi(5_153_960_755)).toBe(4.8);
});
