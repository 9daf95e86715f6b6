import { expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import { imageItem, isUsable } from '../../../src/wire/image.ts';
import { savedImage, savingOf } from '../../../src/wire/saving.ts';
import { anImage, condition, digest } from '../controllers/image/builders.ts';
import { aVm } from '../controllers/vm/builders.ts';

const ready = condition('Ready', 'True', 'Stored');
const made = { digest, observedGeneration: 1, conditions: [ready] };
const asked = anImage({ blank: { size: '1Gi' } }, made, { generation: 2 });
const failedCommit = {
  ...made,
  observedGeneration: 2,
  conditions: [ready, { ...condition('Committed', 'False', 'DiskRefused'), observedGeneration: 2 }],
};
const now = (status: Image['status'], metadata: Partial<Image['metadata']> = {}): Image =>
  anImage({ blank: { size: '1Gi' } }, status, { generation: 2, ...metadata });
const other: Image = { ...now(made), spec: { ...asked.spec, commit: { vm: 'a', request: 'x' } } };

test.each<[string, Image | undefined, object]>([
  [
    'is under way while the cache shows the image before it',
    now(made, { generation: 1 }),
    { kind: 'underWay' },
  ],
  ['is under way while it was not observed', now(made), { kind: 'underWay' }],
  ['is done', now({ ...made, observedGeneration: 2 }), { kind: 'saved' }],
  ['has failed', now(failedCommit), { kind: 'failed', error: { message: 'image disk: DiskRefused' } }],
  ['is lost with its image', undefined, { kind: 'failed', error: { reason: 'NotFound' } }],
  ['is lost with its image, whoever has its name', now(made, { uid: 'x' }), { kind: 'failed' }],
  ['was overtaken by another', other, { kind: 'failed', error: { reason: 'Conflict' } }],
])('a commit %s', (_, image, saving) => {
  expect(savingOf(asked, image)).toMatchObject(saving);
});

test('an image whose commit failed is Ready, usable, and says why', () => {
  expect(imageItem(now(failedCommit))).toMatchObject({ state: 'Ready', errorMessage: 'DiskRefused' });
  expect(isUsable(now(failedCommit))).toBe(true);
  expect(isUsable(now(made, { deletionTimestamp: '2026-01-01T00:00:00Z' }))).toBe(false);
  // What is said of the commit before the next one.
  const next = now(failedCommit, { generation: 3 });
  expect(imageItem(next)).toMatchObject({ state: 'Updating' });
  expect(imageItem(next)).not.toHaveProperty('errorMessage');
});

test('a VM that is being deleted is not saved any more', () => {
  const vm = aVm({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } });
  expect(() => savedImage(vm, 'a', undefined)).toThrow('VM web is being deleted: save comes too late');
});
