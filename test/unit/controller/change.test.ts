import { expect, test } from 'vitest';
import { leaves, leavesSpec } from '../../../src/controller/change.ts';
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

test('only an update that changes nothing that is read leaves an object as it was', () => {
  const labelled = (labels: Record<string, string>, name = 'a') => ({
    metadata: storedMeta({ name, labels }),
  });
  const read = ({ metadata }: ReturnType<typeof labelled>) => [metadata.name, metadata.labels?.['read']];
  const old = labelled({ read: '1', other: '1' });
  const changeTo = (object: typeof old) => leaves({ kind: 'updated', object, old }, read);
  expect(changeTo(labelled({ read: '1', other: '2' }))).toBe(true);
  expect(changeTo(labelled({ read: '2', other: '1' }))).toBe(false);
  expect(changeTo(labelled({ read: '1', other: '1' }, 'b'))).toBe(false);
  expect(leaves({ kind: 'added', object: old }, read)).toBe(false);
  expect(leaves({ kind: 'deleted', object: old }, read)).toBe(false);
});
