import { expect, test } from 'vitest';
import { hasMoved } from '../../../../src/controllers/image/runner.ts';
import { aVm } from '../vm/builders.ts';

const at = (address?: string) =>
  aVm({ status: { runner: { podUid: 'pod', ...(address === undefined ? {} : { address }) } } });

const being = (powerState: 'Running' | 'Suspended' | 'Stopped') =>
  aVm({ status: { powerState, runner: { podUid: 'pod', address: '10.0.0.1' } } });

test.each([
  ['that got another address', { kind: 'updated', old: at('10.0.0.1'), object: at('10.0.0.2') }, true],
  ['that got its first address', { kind: 'updated', old: aVm(), object: at('10.0.0.1') }, true],
  ['at the same address', { kind: 'updated', old: at('10.0.0.1'), object: at('10.0.0.1') }, false],
  ['that has no address any more', { kind: 'updated', old: at('10.0.0.1'), object: at() }, false],
  [
    'whose guest was asleep and goes on',
    { kind: 'updated', old: being('Suspended'), object: being('Running') },
    true,
  ],
  ['that was stopped', { kind: 'updated', old: being('Running'), object: being('Stopped') }, false],
  ['that has just been seen', { kind: 'added', object: at('10.0.0.1') }, false],
] as const)('a save of a VM %s', (_, change, isTriedAtOnce) => {
  expect(hasMoved(change)).toBe(isTriedAtOnce);
});
