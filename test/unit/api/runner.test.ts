import { expect, test } from 'vitest';
import { RunnerState } from '../../../src/api/runner.ts';
import { VmStatus } from '../../../src/api/vm.ts';
import { runnerState } from '../controllers/vm/builders.ts';

/** A guest that took over its runner says what it likes. */
test('requests that a runner says it has carried out have room in the status of its VM', () => {
  const long = 'x'.repeat(300);
  const { revertRequest, startRequest, restartRequest } = RunnerState.parse(
    runnerState({ revertRequest: long, startRequest: long, restartRequest: long }),
  );
  expect(VmStatus.safeParse({ revertRequest, startRequest, restartRequest }).error).toBeUndefined();
});

test('what a runner quotes of an image gives no command to a terminal; requests stay as they were told', () => {
  const said = RunnerState.parse(
    runnerState({
      message: 'more than one disk: \u001b]0;x\u0007a.qcow2, \u009b2Jb.img',
      startRequest: 'a\tb',
    }),
  );
  expect(said.message).toBe('more than one disk:  ]0;x a.qcow2,  2Jb.img');
  expect(said.startRequest).toBe('a\tb');
});

test.each(['', 'no reason', 'lower', 'X'.repeat(65)])(
  'a start whose reason %j cannot be that of a condition is not told',
  (reason) => {
    const warmStart = { fromMemory: false, reason, message: '' };
    expect(RunnerState.parse(runnerState({ warmStart })).warmStart).toBeUndefined();
    const honest = { ...warmStart, reason: 'MemoryUsed' };
    expect(RunnerState.parse(runnerState({ warmStart: honest })).warmStart).toEqual(honest);
  },
);
