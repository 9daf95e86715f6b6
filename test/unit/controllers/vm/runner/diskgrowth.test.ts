import { expect, test } from 'vitest';
import { growthMessage } from '../../../../../src/controllers/vm/runner/diskgrowth.ts';
import { aVm } from '../builders.ts';

const Gi = 2 ** 30;
const done = { diskSize: 2 * Gi, message: 'grown to 2Gi' };
const refused = { diskSize: Gi, message: 'no room', refusedBytes: 2 * Gi };

test.each<[string, string | undefined, string | undefined, Parameters<typeof growthMessage>[2], unknown]>([
  ['that is done is told', '2Gi', '2Gi', done, 'grown to 2Gi'],
  ['that is done is told where nobody asks for a size', undefined, '2Gi', done, 'grown to 2Gi'],
  ['that was refused is told while it is asked for', '2Gi', '1Gi', refused, 'no room'],
  ['that was refused says nothing of a larger one', '3Gi', '1Gi', refused, undefined],
  ['before says nothing of one that is to come', '3Gi', '2Gi', done, undefined],
  ['is told of where the size of the disk is not known', '3Gi', undefined, done, 'grown to 2Gi'],
  ['that nothing is known of is as it was told before', '2Gi', '2Gi', undefined, 'told before'],
  ['that is to come has not been told before', '3Gi', '2Gi', undefined, undefined],
])('a growth %s', (_sentence, size, diskSize, growth, expected) => {
  const disk = size === undefined ? {} : { disk: { size } };
  const vm = aVm({ spec: disk, status: { diskGrowth: 'told before' } });
  expect(growthMessage(vm, diskSize, growth)).toBe(expected);
});
