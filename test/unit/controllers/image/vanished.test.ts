import { expect, test } from 'vitest';
import { finalizer } from '../../../../src/api/meta.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { VanishedDisks } from '../../../../src/controllers/image/vanished.ts';
import { anImage } from './builders.ts';

const now = new Date('2026-11-01T10:00:00Z');

function seen(metadata: Partial<Disk['metadata']>) {
  const disks = new VanishedDisks();
  const object: Disk = anImage({ upload: {} }, undefined, metadata);
  disks.observe('team/debian', { kind: 'deleted', object });
  return { disks, object };
}

test('one that went in spite of the finalizer is as one that was deleted, until it has been followed', () => {
  const { disks, object } = seen({ finalizers: [finalizer] });
  expect(disks.deleted('team/debian', now)?.metadata).toEqual({
    ...object.metadata,
    deletionTimestamp: now.toISOString(),
  });
  disks.forget('team/debian');
  expect(disks.deleted('team/debian', now)).toBeUndefined();
});

test.each<[string, Partial<Disk['metadata']>]>([
  ['that was deleted as it should be', { finalizers: [finalizer], deletionTimestamp: now.toISOString() }],
  ['that nothing had been done for', { finalizers: ['example.com/other'] }],
])('one %s is over', (_, metadata) => {
  expect(seen(metadata).disks.deleted('team/debian', now)).toBeUndefined();
});

test('one that a list is without may be in the store yet: etcd may be that of an hour ago', () => {
  const disks = new VanishedDisks();
  const object: Disk = anImage({ upload: {} }, undefined, { finalizers: [finalizer] });
  disks.observe('team/debian', { kind: 'deleted', object, isFromList: true });
  expect(disks.has('team/debian')).toBe(false);
});

test('the next one of its name takes over what is there', () => {
  const { disks, object } = seen({ finalizers: [finalizer] });
  disks.observe('team/debian', { kind: 'added', object });
  expect(disks.deleted('team/debian', now)).toBeUndefined();
});
