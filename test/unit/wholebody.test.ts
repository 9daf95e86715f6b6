import { Readable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { readWhole } from '../../src/wholebody.ts';

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

  test('of a source that breaks is its error', async () => {
    const source = new Readable({ read: () => source.destroy(new Error('broken')) });
    await expect(readWhole(source, 10, tooLarge)).rejects.toThrow('broken');
  });
});
