import { expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import { eventsBetween } from '../../../../../src/controllers/vm/status/statusevents.ts';
import { aCondition } from '../builders.ts';

const [one, other] = ['ports: nodePort 22 is not allowed', 'vncConsole: Enabled has no effect'];
const taken = 'ports: nodePort 20001/TCP is taken';

const told = (before: VmStatus | undefined, after: VmStatus) =>
  eventsBetween(before, after).filter(({ reason }) => reason === 'SpecWarning');
const event = (message: string) => [{ type: 'Warning', reason: 'SpecWarning', message }];

test.each<[string, VmStatus | undefined, VmStatus, object[]]>([
  ['is told when the VM is placed', undefined, { warnings: [one, other] }, event(`${one}; ${other}`)],
  ['is told once', { warnings: [one] }, { warnings: [one] }, []],
  ['is told beside one that was', { warnings: [one] }, { warnings: [one, other] }, event(other)],
  ['is not told when it is over', { warnings: [one] }, {}, []],
  [
    'is not told where a condition does',
    {},
    {
      warnings: [taken, one],
      conditions: [aCondition('PortsMapped', { status: 'False', reason: 'PortTaken', message: taken })],
    },
    event(one),
  ],
])('what of a spec has no effect %s', (_what, before, after, events) => {
  expect(told(before, after)).toEqual(events);
});
