import { expect, test } from 'vitest';
import { PoolRevisions } from '../../../../src/controllers/vmpool/revisions.ts';

const pinned = (revision: string) => ({ revision, isPinned: true });
const unpinned = (revision: string) => ({ revision, isPinned: false });

test('what was found out last holds while nothing is known', () => {
  const revisions = new PoolRevisions();
  expect(revisions.look('pool', undefined)).toBeUndefined();
  expect(revisions.look('pool', pinned('a'))).toEqual(['a']);
  expect(revisions.look('pool', pinned('b'))).toEqual(['b']);
  expect(revisions.look('pool', undefined)).toEqual(['b']);
  expect(revisions.look('other', undefined)).toBeUndefined();
});

test('what is made of tags stands beside what was made of digests, and for nothing alone', () => {
  const revisions = new PoolRevisions();
  expect(revisions.look('pool', unpinned('x'))).toBeUndefined();
  expect(revisions.look('pool', undefined)).toBeUndefined();
  revisions.look('pool', pinned('a'));
  expect(revisions.look('pool', unpinned('x'))).toEqual(['a', 'x']);
  expect(revisions.look('pool', undefined)).toEqual(['a', 'x']);
  expect(revisions.look('pool', unpinned('y'))).toEqual(['a', 'y']);
  expect(revisions.look('pool', pinned('a'))).toEqual(['a']);
});

test('a pool that is gone is forgotten', () => {
  const revisions = new PoolRevisions();
  revisions.look('pool', pinned('a'));
  revisions.forget('pool');
  expect(revisions.look('pool', undefined)).toBeUndefined();
});
