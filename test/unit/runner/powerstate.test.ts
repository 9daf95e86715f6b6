import { describe, expect, test } from 'vitest';
import { PowerAction, RunnerPowerState } from '../../../src/api/runner.ts';
import { backoffMs, checkVerb, createQueue } from '../../../src/runner/powerstate.ts';

describe('a verb fits', () => {
  const fits: Record<PowerAction, RunnerPowerState[]> = {
    start: ['Stopped', 'Failed'],
    stop: ['Running', 'Stopped', 'Suspended', 'Failed'],
    restart: ['Running', 'Stopped', 'Failed'],
    suspend: ['Running'],
    resume: ['Suspended'],
    revert: ['Running', 'Stopped', 'Suspended', 'Failed'],
  };
  const rows = PowerAction.options.flatMap((action) =>
    RunnerPowerState.options.map((state) => ({ action, state, fit: fits[action].includes(state) })),
  );

  test.each(rows)('$action in state $state: $fit', ({ action, state, fit }) => {
    if (fit) expect(() => checkVerb(action, state)).not.toThrow();
    else expect(() => checkVerb(action, state)).toThrow(`cannot ${action} the VM: it is ${state}`);
  });
});

test('tasks run one after the other in the order of asking, also after one that failed', async () => {
  const inTurn = createQueue();
  const seen: string[] = [];
  const task = (name: string, fails = false) =>
    inTurn(async () => {
      seen.push(`${name} begins`);
      await Promise.resolve();
      seen.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    });
  const results = await Promise.allSettled([task('first'), task('second', true), task('third')]);
  expect(seen).toEqual([
    'first begins',
    'first ends',
    'second begins',
    'second ends',
    'third begins',
    'third ends',
  ]);
  expect(results.map((result) => result.status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
});

test('the pause before a new start doubles up to a minute', () => {
  expect([1, 2, 3, 4, 5, 6, 7, 8, 100].map(backoffMs)).toEqual([
    1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000,
  ]);
});
