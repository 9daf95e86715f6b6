import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseForeignJson, readWhole } from '../../../src/net/foreign.ts';
import { heapInUse } from '../../support/heap.ts';

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

const tooLarge = () => new Error('too large');

describe('what is read whole', () => {
  test('comes in one piece, up to the limit', async () => {
    const source = Readable.from([Buffer.from('ab'), 'ü', Buffer.from('c')]);
    expect((await readWhole(source, 5, tooLarge)).toString()).toBe('abüc');
  });

  test('is not read on beyond it, and its source is destroyed', async () => {
    let given = 0;
    const source = new Readable({
      read() {
        given += 1;
        this.push(Buffer.alloc(1_000));
      },
      highWaterMark: 1,
    });
    await expect(readWhole(source, 10_000, tooLarge)).rejects.toThrow('too large');
    expect(source.destroyed).toBe(true);
    expect(given).toBeLessThan(15);
  });

  test('takes the memory of its bytes, in however small pieces it comes', async () => {
    const before = heapInUse();
    let grown = 0;
    async function* bytes() {
      for (let left = 300_000; left > 0; left -= 1) yield Buffer.from('a');
      grown = heapInUse() - before;
    }
    const read = await readWhole(bytes(), 300_000, tooLarge);
    expect(read.equals(Buffer.alloc(300_000, 'a'))).toBe(true);
    expect(grown).toBeLessThan(8 * 1024 * 1024);
  });

  test('of a source that breaks is its error', async () => {
    const source = new Readable({ read: () => source.destroy(new Error('broken')) });
    await expect(readWhole(source, 10, tooLarge)).rejects.toThrow('broken');
  });
});
