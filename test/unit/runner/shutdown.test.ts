import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { shutdownSteps } from '../../../src/runner/shutdown.ts';

describe('the shutdown ladder', () => {
  test('of a minute presses the button every three seconds, asks the agent half-way, then quits, then kills', () => {
    const steps = shutdownSteps(60_000, false);
    expect(steps[0]).toEqual({ atMs: 0, action: 'powerdown' });
    expect(steps.filter((step) => step.action === 'powerdown').map((step) => step.atMs)).toEqual(
      Array.from({ length: 19 }, (_, index) => index * 3000),
    );
    expect(steps.find((step) => step.action === 'agentShutdown')).toEqual({
      atMs: 30_000,
      action: 'agentShutdown',
    });
    expect(steps.slice(-2)).toEqual([
      { atMs: 55_000, action: 'quit' },
      { atMs: 59_000, action: 'kill' },
    ]);
  });

  test('of a paused guest lets it go on first: it cannot hear the button', () => {
    expect(shutdownSteps(60_000, true).slice(0, 2)).toEqual([
      { atMs: 0, action: 'continue' },
      { atMs: 0, action: 'powerdown' },
    ]);
  });

  test('keeps its order and its time whatever the grace period', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 3_600_000 }), fc.boolean(), (graceMs, paused) => {
        const steps = shutdownSteps(graceMs, paused);
        const times = steps.map((step) => step.atMs);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        expect(times.at(-1)).toBeLessThanOrEqual(graceMs);
        expect(steps.slice(-2).map((step) => step.action)).toEqual(['quit', 'kill']);
        expect(steps.some((step) => step.action === 'powerdown')).toBe(graceMs > 1);
      }),
    );
  });
});
