import { describe, expect, test } from 'vitest';
import { createRandom } from '../../chaos/random.ts';
import { isFlat, type Sample, trendOf } from '../../chaos/soak/slope.ts';

const MiB = 2 ** 20;
const hourMs = 3_600_000;

/** One sample in 15 s over 40 min: what it is by the hour, with noise of ± `noise`. */
function series(by: (hours: number) => number, noise = 0): Sample[] {
  const random = createRandom('series');
  return Array.from({ length: 160 }, (_, index) => {
    const at = index * 15_000;
    return { at, bytes: by(at / hourMs) + (random.next() * 2 - 1) * noise };
  });
}

describe('the trend of a process', () => {
  test('is the slope of a line, whatever the unit of time', () => {
    const trend = trendOf(series((hours) => 100 * MiB + 30 * MiB * hours));
    expect(trend?.slope).toBeCloseTo(30 * MiB, -3);
    expect(trend?.least).toBeCloseTo(30 * MiB, -3);
  });

  test('is not moved by a few samples that are off', () => {
    const samples = series(() => 100 * MiB).map(({ at, bytes }, index) => ({
      at,
      bytes: index % 7 === 0 ? bytes + index * MiB : bytes,
    }));
    expect(trendOf(samples)?.slope).toBe(0);
  });

  test('has an interval that holds the true slope', () => {
    const trend = trendOf(series((hours) => 100 * MiB + 10 * MiB * hours, 20 * MiB));
    expect(trend?.least).toBeLessThan(10 * MiB);
    expect(trend?.most).toBeGreaterThan(10 * MiB);
  });

  test('needs ten samples', () => {
    expect(trendOf(series(() => 1).slice(0, 9))).toBeUndefined();
  });
});

describe('memory', () => {
  test.each([
    ['is flat where it only varies', series(() => 100 * MiB, 15 * MiB), true],
    ['is flat where it saws up and down', series((h) => 80 * MiB + ((h * 20) % 1) * 40 * MiB), true],
    ['is flat where it falls', series((h) => 100 * MiB - 40 * MiB * h), true],
    ['is flat where it grows by a tenth in an hour at most', series((h) => 100 * MiB + 9 * MiB * h), true],
    ['is not flat where it leaks', series((h) => 100 * MiB + 24 * MiB * h, 3 * MiB), false],
    ['is not flat where a small process leaks', series((h) => 20 * MiB + 6 * MiB * h, 0.2 * MiB), false],
  ])('%s', (_, samples, flat) => {
    const trend = trendOf(samples);
    expect(trend === undefined ? undefined : isFlat(trend)).toBe(flat);
  });
});
