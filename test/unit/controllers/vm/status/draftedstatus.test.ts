import { expect, test } from 'vitest';
import { VmStatus } from '../../../../../src/api/vm.ts';
import { statusOf } from '../../../../../src/controllers/vm/status/draftedstatus.ts';
import { condition } from '../../../../../src/controllers/vm/status/statusdraft.ts';
import { aVm } from '../builders.ts';

const now = new Date('2026-11-01T10:00:10Z');
const written = (fields: VmStatus, before?: VmStatus) => {
  const draft = { fields, conditions: { ready: condition('True', 'Running') }, reconciling: false };
  return statusOf(aVm(before === undefined ? {} : { status: before }), draft, now);
};
const warnings = (count: number, characters: number) =>
  Array.from({ length: count }, (_, index) => `${index}: ${'x'.repeat(characters)}`);

test('a status has as much of what others say as kube-apiserver takes', () => {
  const status = written({ warnings: warnings(33, 2_000), diskGrowth: 'x'.repeat(2_000) });
  expect(VmStatus.safeParse(status).error).toBeUndefined();
  expect(status.warnings?.at(-2)).toMatch(/^30: x+…$/);
  expect(status.warnings?.at(-1)).toMatch(/^there are more warnings/);
  expect(status.diskGrowth).toMatch(/^x{1023}…$/);
});

test('it has all of what there is room for', () => {
  const fields = { warnings: warnings(32, 1_000), diskGrowth: 'x'.repeat(1_024) };
  expect(written(fields)).toMatchObject(fields);
});

test.each([
  ['as they were', []],
  ['beside those of this pod', warnings(3, 10)],
])('warnings that come in again %s are no others', (_sentence, others) => {
  const first = written({ warnings: [...warnings(40, 10), ...others] });
  const second = written({ warnings: [...(first.warnings ?? []), ...others] }, first);
  expect(second).toBe(first);
});
