import { expect, test } from 'vitest';
import { wokenFromImage, wokenFromPool } from '../../../src/runner/wokenstatus.ts';
import type { WarmStart } from '../../../src/runner/status.ts';

const fromMemory = { fromMemory: true, reason: 'StartedFromMemory' } as const;
const reason = 'exit code 1';

const booted = { metadata: [{ name: 'stage', value: 'waiting' }], sshAuthorizedKeys: ['of the pool'] };
const claimed = (before?: WarmStart) => ({ before, booted, own: structuredClone(booted) });

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
    const told = wokenFromPool(claimed(before), { isStarted, reason });
    expect(told).toMatchObject({ fromMemory: true, reason: 'IdentityShared' });
    expect(told?.message).toBe(wokenFromImage([{ what: 'randomness' }, { what: 'hook', reason }]).message);
  },
);

test('that a claimed guest has no agent was said when it went on', () => {
  const before = wokenFromImage([{ what: 'identity' }]);
  expect(wokenFromPool(claimed(before), { isStarted: false, reason })).toBeUndefined();
});

test('a claimed guest that has booted is nobody else’s copy: of a hook only that is told which is there and fails', () => {
  expect(wokenFromPool(claimed(), { isStarted: false, reason })).toBeUndefined();
  expect(wokenFromPool(claimed(), { isStarted: true, reason })).toEqual({
    fromMemory: false,
    reason: 'HookFailed',
    message: expect.stringContaining('has failed (exit code 1)'),
  });
});

test.each([
  ['metadata', { metadata: [{ name: 'job', value: '7' }] }],
  ['keys', { sshAuthorizedKeys: ['mine'] }],
])('a claimed guest that has booted and has no hook is told of where its VM has other %s', (_, own) => {
  const other = { ...claimed(), own: { ...booted, ...own } };
  expect(wokenFromPool(other, { isStarted: false, reason: 'no such file' })).toEqual({
    fromMemory: false,
    reason: 'HookFailed',
    message: expect.stringMatching(/has run no hook .* \(no such file\): it does not know the metadata/),
  });
});
