import { describe, expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import type { VmStatus } from '../../../src/api/vm.ts';
import { imageItem, isUsable } from '../../../src/wire/image.ts';
import { committedImage, savedImage, savingOf } from '../../../src/wire/saving.ts';
import { anImage, condition, digest } from '../controllers/image/builders.ts';
import { aVm, effective } from '../controllers/vm/builders.ts';

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
const committing: Image = { ...asked, spec: other.spec };

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

test('a commit that was withdrawn is not told as overtaken', () => {
  const withdrawn = now({ ...made, observedGeneration: 3 }, { generation: 3 });
  expect(savingOf(committing, withdrawn)).toMatchObject({
    kind: 'failed',
    error: { reason: 'Conflict', message: 'the commit of image disk was withdrawn' },
  });
});

test('an image says which commit it is asked for', () => {
  expect(imageItem(other)).toMatchObject({ commitRequest: 'x' });
  expect(imageItem(asked)).not.toHaveProperty('commitRequest');
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
  expect(() => savedImage(vm, { imageName: 'a' })).toThrow('VM web is being deleted: save comes too late');
});

const booted = [condition('Booted', 'True', 'Booted')];
const running = { effective, powerState: 'Running', conditions: booted } as const;

test('the memory of a VM that runs is asked for with its disk', () => {
  const saved = savedImage(aVm({ status: running }), { imageName: 'a', memory: true });
  expect(saved.spec.source).toEqual({ vm: { name: 'web', mode: 'SaveWithMemory' } });
});

describe('another VM of its name', () => {
  const vm = aVm({ status: { ...running, effective: { ...effective, imageName: 'disk' } } });

  test('is not saved in its place: the image says which one was meant', () => {
    const annotations = { 'svc3.dev/saved-vm': 'vm-uid' };
    expect(savedImage(vm, { imageName: 'a', uid: 'vm-uid' }).metadata).toMatchObject({ annotations });
    expect(savedImage(vm, { imageName: 'a' }).metadata).toMatchObject({ annotations });
  });

  test('is not committed in its place: the image says which one was meant, for this commit', () => {
    const { metadata, spec } = committedImage(vm, { uid: 'vm-uid' }).body;
    const request = spec.commit?.request;
    expect(request).toMatch(/./);
    expect(metadata).toEqual({ annotations: { 'svc3.dev/committed-vm': `${request}/vm-uid` } });
  });

  test('is refused where the request says which one it means', () => {
    const refusal = {
      reason: 'Conflict',
      message: 'VM web is another one: its UID is vm-uid and not before',
    };
    expect(() => savedImage(vm, { imageName: 'a', uid: 'before' })).toThrow(expect.objectContaining(refusal));
    expect(() => committedImage(vm, { uid: 'before' })).toThrow(expect.objectContaining(refusal));
  });
});

test.each<[what: string, status: VmStatus, message: string]>([
  [
    'that is stopped',
    { ...running, powerState: 'Stopped' },
    'VM web is Stopped: only the memory of a VM that runs can be saved',
  ],
  [
    'with a GPU',
    { ...running, effective: { ...effective, gpuPassthrough: 'Enabled' } },
    'gpuPassthrough: the memory of a VM with a GPU cannot be saved',
  ],
  [
    'with data disks',
    { ...running, effective: { ...effective, disks: [{ name: 'logs', size: '1Gi' }] } },
    'disks: the memory of a VM with data disks cannot be saved',
  ],
  [
    'that was started with a CD',
    { ...running, effective: { ...effective, iso: 'r.example.com/iso@sha256:0' } },
    'iso: the memory of a VM that was started with a CD cannot be saved',
  ],
])('the memory of a VM %s is refused by the field', (_what, status, message) => {
  expect(() => savedImage(aVm({ status }), { imageName: 'a', memory: true })).toThrow(message);
});
