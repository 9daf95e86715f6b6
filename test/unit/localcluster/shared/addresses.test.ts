import { expect, test } from 'vitest';
import { lossOf } from '../../../../src/localcluster/shared/addresses.ts';

test.each([
  [3, 1, 'node2, node3 go, with the Ephemeral disks of VMs there'],
  [3, 2, 'node3 goes, with the Ephemeral disks of VMs there'],
  [3, 3, undefined],
  [1, 3, undefined],
])('what %i nodes lose that become %i is named', (before, after, loss) => {
  expect(lossOf(before, after)).toBe(loss);
});
