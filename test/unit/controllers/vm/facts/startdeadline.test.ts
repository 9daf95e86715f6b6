import { expect, test } from 'vitest';
import type { VmStatus } from '../../../../../src/api/vm.ts';
import { deadlineMessage, startDeadline } from '../../../../../src/controllers/vm/facts/startdeadline.ts';
import { aCondition, aVm, effective } from '../builders.ts';

/** Created at 10:00:00. */
const deadlineOf = (status?: VmStatus, startDeadlineSeconds = 60) => {
  const vm = aVm({ spec: { startDeadlineSeconds }, ...(status === undefined ? {} : { status }) });
  const at = startDeadline(vm);
  return at === undefined ? undefined : new Date(at).toISOString().slice(0, 19);
};
const since = (type: string, time: string) =>
  aCondition(type, { status: 'False', lastTransitionTime: `2026-11-01T${time}Z` });

test('the time of a VM begins when it was made', () => {
  expect(deadlineOf({ conditions: [since('Ready', '10:00:00')] })).toBe('2026-11-01T10:01:00');
  expect(deadlineOf({ conditions: [] })).toBe('2026-11-01T10:01:00');
});

test('it begins with the first report where no operator ran before, and not again with a later one', () => {
  const ready = since('Ready', '12:00:00');
  for (const status of [undefined, { observedGeneration: 0 }]) expect(deadlineOf(status)).toBeUndefined();
  expect(deadlineOf({ conditions: [ready] })).toBe('2026-11-01T12:01:00');
  expect(deadlineOf({ conditions: [since('Scheduled', '12:00:40'), ready] })).toBe('2026-11-01T12:01:00');
  expect(deadlineOf({ conditions: [ready, since('Stalled', '12:05:00')] })).toBe('2026-11-01T12:01:00');
});

test('it begins no earlier than the VM was made, as where it was restored with its status', () => {
  expect(deadlineOf({ conditions: [since('Ready', '08:00:00')] })).toBe('2026-11-01T10:01:00');
});

test('a VM that has booted, or has no deadline, is never given up', () => {
  expect(deadlineOf({ powerState: 'Stopped' })).toBeUndefined();
  expect(startDeadline(aVm({ status: { conditions: [] } }))).toBeUndefined();
  const frozen = { effective: { ...effective, startDeadlineSeconds: 30 } };
  expect(startDeadline(aVm({ status: frozen }))).toBeUndefined();
  for (const spec of [{ config: 'c' }, { pool: 'p' }])
    expect(startDeadline(aVm({ spec, status: frozen }))).toBe(Date.parse('2026-11-01T10:00:30Z'));
});

test('that of its VMConfig or VMPool holds before the VM is placed, and its own before it', () => {
  const { cpu, memory, gpuPassthrough, vncConsole } = effective;
  const planned = { image: 'web', cpu, memory, gpuPassthrough, vncConsole, startDeadlineSeconds: 30 };
  const ofConfig = aVm({ spec: { config: 'small' }, status: { planned } });
  expect(startDeadline(ofConfig)).toBe(Date.parse('2026-11-01T10:00:30Z'));
  expect(deadlineOf({ planned })).toBe('2026-11-01T10:01:00');
  expect(startDeadline({ ...ofConfig, status: { effective, planned } })).toBeUndefined();
  // It has taken its own out since.
  expect(startDeadline(aVm({ status: { planned } }))).toBeUndefined();
});

test('what a VM has waited for is told of it: by Ready, else by the first of its steps that is not done', () => {
  const told = (type: string, message: string, status: 'True' | 'False' = 'False') =>
    aCondition(type, { status, message });
  const messageOf = (...conditions: ReturnType<typeof aCondition>[]) =>
    deadlineMessage(aVm({ spec: { startDeadlineSeconds: 60 }, status: { conditions } }));
  const deleted = 'the VM did not boot within 60 seconds and is deleted';
  const steps = [told('Scheduled', 'placed on node n1', 'True'), told('Prepared', 'no network yet')];
  expect(messageOf(told('Ready', ''), ...steps, told('Booted', 'QEMU is being started'))).toBe(
    `${deleted}: no network yet`,
  );
  expect(messageOf(...steps, told('Ready', 'no answer'))).toBe(`${deleted}: no answer`);
  expect(messageOf(told('Ready', ''))).toBe(deleted);
});
