import { describe, expect, test } from 'vitest';
import { createRandom } from '../../chaos/random.ts';
import { chaosSettings, soakSettings } from '../../chaos/settings.ts';

const draw = (seed: string): string[] => {
  const random = createRandom(seed);
  return Array.from({ length: 50 }, () => random.word(5));
};

describe('choices at random', () => {
  test('repeat with the seed', () => {
    expect(draw('one')).toEqual(draw('one'));
    expect(draw('one')).not.toEqual(draw('two'));
  });

  test('of one fork do not move those of another', () => {
    const [a, b] = [createRandom('one'), createRandom('one')];
    a.fork('faults').word(100);
    expect(a.fork('tenants').word(9)).toBe(b.fork('tenants').word(9));
    expect(a.word(9)).toBe(b.word(9));
  });

  test('reach both ends of a range and nothing beyond', () => {
    const random = createRandom('range');
    const drawn = Array.from({ length: 2_000 }, () => random.between(3, 5));
    expect(new Set(drawn)).toEqual(new Set([3, 4, 5]));
  });

  test('follow their weights', () => {
    const random = createRandom('weights');
    const choices = [
      { weight: 0, value: 'never' },
      { weight: 1, value: 'seldom' },
      { weight: 9, value: 'often' },
    ];
    const drawn = Array.from({ length: 5_000 }, () => random.weighted(choices));
    expect(drawn).not.toContain('never');
    const often = drawn.filter((value) => value === 'often').length / drawn.length;
    expect(often).toBeGreaterThan(0.87);
    expect(often).toBeLessThan(0.93);
  });

  test('are refused where there is nothing to choose', () => {
    const random = createRandom('none');
    expect(() => random.pick([])).toThrow(RangeError);
    expect(() => random.weighted([{ weight: 0, value: 1 }])).toThrow(RangeError);
  });
});

describe('the settings of a run', () => {
  test('are 30 min of chaos, 45 of soak, and what is said', () => {
    expect(chaosSettings({}).durationMs).toBe(1_800_000);
    expect(chaosSettings({ SVC3_CHAOS_MINUTES: '2.5' }).durationMs).toBe(150_000);
    expect(soakSettings({}).durationMs).toBe(2_700_000);
  });

  test('have a seed of their own unless one is given', () => {
    expect(chaosSettings({ SVC3_CHAOS_SEED: 'seven' }).seed).toBe('seven');
    expect(chaosSettings({}).seed).not.toBe(chaosSettings({}).seed);
  });

  test.each(['0', '-1', 'ten'])('refuse %s minutes and name the variable', (minutes) => {
    expect(() => chaosSettings({ SVC3_CHAOS_MINUTES: minutes })).toThrow(/SVC3_CHAOS_MINUTES/);
  });
});
