import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseForeignJson } from '../../src/foreignjson.ts';

const parse = (text: string) => parseForeignJson(Buffer.from(text));

describe('JSON of somebody else', () => {
  test('is what JSON.parse makes of it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => {
        const text = JSON.stringify(value);
        expect(parse(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  test('may have brackets, quotes and commas in strings', () => {
    const value = { ['[{"\\'.repeat(100)]: `${'[,'.repeat(300_000)}"\\` };
    expect(parse(JSON.stringify(value))).toEqual(value);
  });

  test.each([
    ['64 levels', 64, 1],
    ['200,000 values', 1, 199_998],
  ])('may have %s', (_, depth, commas) => {
    const text = '['.repeat(depth) + '1,'.repeat(commas) + '1' + ']'.repeat(depth);
    expect(() => parse(text)).not.toThrow();
  });

  test.each([
    ['65 levels', '['.repeat(65) + ']'.repeat(65), 'nested deeper than 64'],
    ['65 levels of objects', `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, 'nested deeper than 64'],
    ['too many numbers', `[${'1,'.repeat(200_000)}1]`, 'more than 200000 values'],
    ['too many lists', `[${'[],'.repeat(100_000)}[]]`, 'more than 200000 values'],
  ])('with %s is refused before it is taken apart', (_, text, message) => {
    expect(() => parse(text)).toThrow(message);
  });

  test.each(['', '{', '"', '"\\', ']]]]', '{"a" 1}', 'nul'])('that is %j is none', (text) => {
    expect(() => parse(text)).toThrow(SyntaxError);
  });
});
