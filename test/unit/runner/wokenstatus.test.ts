import { expect, test } from 'vitest';
import { wokenFromImage, wokenFromPool } from '../../../src/runner/wokenstatus.ts';

const fromMemory = { fromMemory: true, reason: 'StartedFromMemory' } as const;
const reason = 'exit code 1';

test('a guest that is one of its own goes on from the memory of its image, and there is no more to say', () => {
  expect(wokenFromImage([])).toEqual({
    ...fromMemory,
    message: 'the guest goes on from the memory of its image',
  });
});

test('all that a guest may have in common with others is in one sentence', () => {
  const told = wokenFromImage([{ what: 'randomness' }, { what: 'hook', reason }]);
  expect(told).toMatchObject({ fromMemory: true, reason: 'IdentityShared' });
  expect(told.message).toMatch(/from the memory of its image, and its agent could not .* random numbers/);
  expect(told.message).toMatch(
    /, and its hook \/usr\/lib\/svc3\/woken has not done its work \(exit code 1\): .*SSH host keys/,
  );
  expect(wokenFromImage([{ what: 'identity' }]).message).toMatch(/and has no agent that could be told/);
});

test.each([true, false])(
  'a claimed guest from a memory may be like others, its hook started: %s',
  (isStarted) => {
    const before = wokenFromImage([{ what: 'randomness' }]);
    const told = wokenFromPool(before, { isStarted, reason });
    expect(told).toMatchObject({ fromMemory: true, reason: 'IdentityShared' });
    expect(told?.message).toBe(wokenFromImage([{ what: 'randomness' }, { what: 'hook', reason }]).message);
  },
);

test('that a claimed guest has no agent was said when it went on', () => {
  const before = wokenFromImage([{ what: 'identity' }]);
  expect(wokenFromPool(before, { isStarted: false, reason })).toBeUndefined();
});

test('a claimed guest that has booted is nobody else’s copy: only a hook that is there and fails is told of', () => {
  expect(wokenFromPool(undefined, { isStarted: false, reason })).toBeUndefined();
  expect(wokenFromPool(undefined, { isStarted: true, reason })).toEqual({
    fromMemory: false,
    reason: 'HookFailed',
    message: expect.stringContaining('has failed (exit code 1)'),
  });
});
