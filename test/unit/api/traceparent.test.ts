import { describe, expect, test } from 'vitest';
import { formatTraceparent, parseTraceparent } from '../../../src/api/traceparent.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';

describe('traceparent', () => {
  test.each([
    ['01', true],
    ['00', false],
    ['03', true],
    ['02', false],
  ])('with flags %s it is sampled: %s', (flags, isSampled) => {
    expect(parseTraceparent(`00-${traceId}-${spanId}-${flags}`)).toEqual({ traceId, spanId, isSampled });
  });

  test('is written as it is read, but for flags that nobody knows', () => {
    const text = `00-${traceId}-${spanId}-01`;
    expect(formatTraceparent(parseTraceparent(text)!)).toBe(text);
    expect(formatTraceparent(parseTraceparent(`00-${traceId}-${spanId}-ff`)!)).toBe(text);
  });

  test.each([
    ['nothing', undefined],
    ['an empty text', ''],
    ['another version', `01-${traceId}-${spanId}-01`],
    ['the version that is none', `ff-${traceId}-${spanId}-01`],
    ['capitals', `00-${traceId.toUpperCase()}-${spanId}-01`],
    ['a trace of zeros', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['a span of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['a trace that is too short', `00-${traceId.slice(1)}-${spanId}-01`],
    ['no flags', `00-${traceId}-${spanId}`],
    ['more after it', `00-${traceId}-${spanId}-01-more`],
    ['a line break after it', `00-${traceId}-${spanId}-01\n`],
    ['space around it', ` 00-${traceId}-${spanId}-01`],
    ['something to log', `00-${traceId}-${spanId}-01\n{"level":"error"}`],
  ])('%s is none', (_, text) => {
    expect(parseTraceparent(text)).toBeUndefined();
  });
});
