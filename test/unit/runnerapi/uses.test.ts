import { describe, expect, test } from 'vitest';
import { createUses } from '../../../src/runnerapi/uses.ts';

function atTime() {
  const clock = { now: 0 };
  return { clock, uses: createUses(1000, () => clock.now) };
}

describe('what may be used once', () => {
  test('is refused the second time, and others are not', () => {
    const { uses } = atTime();
    expect([uses.take('a'), uses.take('b'), uses.take('a'), uses.take('b')]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  test('is good again when it was given back', () => {
    const { uses } = atTime();
    uses.take('a');
    uses.giveBack('a');
    expect(uses.take('a')).toBe(true);
  });

  test('is forgotten after its time and not before', () => {
    const { clock, uses } = atTime();
    uses.take('a');
    clock.now = 500;
    uses.take('b');
    clock.now = 999;
    expect(uses.take('a')).toBe(false);
    clock.now = 1000;
    expect([uses.take('a'), uses.take('b')]).toEqual([true, false]);
  });
});
