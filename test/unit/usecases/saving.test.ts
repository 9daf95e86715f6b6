import { expect, test, vi } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import { commit } from '../../../src/usecases/saving.ts';
import { anImage, condition, digest } from '../controllers/image/builders.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

const vm = aVm({
  status: {
    effective: { ...effective, imageName: 'disk' },
    powerState: 'Running',
    conditions: [condition('Booted', 'True', 'Booted')],
  },
});
const writerOf = (image: Image) => ({ writer: { patch: vi.fn().mockResolvedValue(image) } as never });

test('a commit is asked for of the image that the VM runs from', async () => {
  const image = anImage({ blank: { size: '1Gi' } }, { digest });
  expect(await commit(writerOf(image), vm, undefined)).toBe(image);
});

test('nobody is told that an image takes a commit which is being deleted', async () => {
  const image = anImage(
    { blank: { size: '1Gi' } },
    { digest },
    { deletionTimestamp: '2026-01-01T00:00:00Z' },
  );
  await expect(commit(writerOf(image), vm, undefined)).rejects.toMatchObject({
    reason: 'Conflict',
    message: 'image disk is being deleted: a commit comes too late',
  });
});
