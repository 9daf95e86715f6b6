import { expect, test } from 'vitest';
import { leavesSpec } from '../../../src/controller/change.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const at = (generation?: number) => ({
  metadata: storedMeta(generation === undefined ? {} : { generation }),
});

test('only a change that leaves the generation alone leaves the spec alone', () => {
  expect(leavesSpec({ kind: 'updated', object: at(2), old: at(2) })).toBe(true);
  expect(leavesSpec({ kind: 'updated', object: at(3), old: at(2) })).toBe(false);
  expect(leavesSpec({ kind: 'added', object: at(1) })).toBe(false);
  expect(leavesSpec({ kind: 'deleted', object: at(1) })).toBe(false);
  // A kind that counts none.
  expect(leavesSpec({ kind: 'updated', object: at(), old: at() })).toBe(false);
});
