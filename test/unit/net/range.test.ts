import { describe, expect, test } from 'vitest';
import { parseRange } from '../../../src/net/range.ts';

describe('a range of a file of 10 bytes', () => {
  test.each([
    ['bytes=0-', 0, 9],
    ['bytes=0-0', 0, 0],
    ['bytes=3-5', 3, 5],
    ['bytes=3-', 3, 9],
    ['bytes=9-', 9, 9],
    ['bytes=9-9', 9, 9],
    ['bytes=3-100', 3, 9],
    ['bytes=-1', 9, 9],
    ['bytes=-4', 6, 9],
    ['bytes=-10', 0, 9],
    ['bytes=-100', 0, 9],
  ])('%s is from %i to %i', (header, start, end) => {
    expect(parseRange(header, 10)).toEqual({ start, end });
  });

  test.each([
    undefined,
    '',
    'bytes',
    'bytes=',
    'bytes=-',
    'bytes=0-1,3-4',
    'lines=0-1',
    'bytes=a-b',
    ' bytes=0-1',
  ])('%s is the whole', (header) => {
    expect(parseRange(header, 10)).toBeUndefined();
  });

  test.each(['bytes=10-', 'bytes=10-11', 'bytes=5-4', 'bytes=-0'])('%s is none', (header) => {
    expect(() => parseRange(header, 10)).toThrow(
      expect.objectContaining({ reason: 'RangeNotSatisfiable', message: 'Range: the file has 10 bytes' }),
    );
  });

  test('is none of an empty file', () => {
    for (const header of ['bytes=0-', 'bytes=-1']) expect(() => parseRange(header, 0)).toThrow('has 0 bytes');
  });
});
