import { expect, test } from 'vitest';
import { fittingCommands } from '../../../../../src/http/ui/page/verbs.ts';

test.each([
  ['Pending', []],
  ['Running', ['stop', 'restart', 'suspend', 'revert']],
  ['Stopped', ['start', 'revert']],
  ['Suspended', ['stop', 'resume', 'revert']],
  ['Failed', ['start', 'stop', 'restart', 'revert']],
] as const)('a VM that is %s is offered %j', (status, expected) => {
  expect(fittingCommands({ status })).toEqual(expected);
});
