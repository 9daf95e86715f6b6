import { describe, expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import { diskWaitsForPerson } from '../../../src/api/reasons.ts';
import { imageItem } from '../../../src/wire/image.ts';
import { imageItem as schema } from '../../../src/wire/schemas.ts';
import { condition } from '../../support/api.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const row = (reason: string, message: string) =>
  imageItem({
    metadata: storedMeta({ name: 'debian', namespace: 'ns', generation: 1 }),
    spec: { source: { remote: { reference: 'r.example.com/debian:12' } } },
    status: {
      observedGeneration: 1,
      conditions: [
        condition('Ready', 'False', reason, message),
        ...(diskWaitsForPerson.has(reason) ? [condition('Stalled', 'True', reason, message)] : []),
      ],
    },
  });

describe('whether there is something to download', () => {
  const stored = condition('Ready', 'True', 'Stored');
  const digest = `sha256:${'a'.repeat(64)}`;
  const committed = (status: 'True' | 'False', reason: string) => condition('Committed', status, reason);
  test.each<[string, Image['status'], string, true | undefined]>([
    ['the disk is in the store', { observedGeneration: 2, digest, conditions: [stored] }, 'Ready', true],
    [
      'a commit is under way',
      { observedGeneration: 1, digest, conditions: [stored, committed('False', 'Pending')] },
      'Updating',
      true,
    ],
    [
      'a commit has failed',
      { observedGeneration: 2, digest, conditions: [stored, committed('False', 'DiskRefused')] },
      'Ready',
      true,
    ],
    [
      'nothing has come yet',
      { observedGeneration: 2, conditions: [condition('Ready', 'False', 'Working')] },
      'Updating',
      undefined,
    ],
    ['nobody has looked at it', undefined, 'Updating', undefined],
  ])('is said where %s', (_, status, state, usable) => {
    const item = imageItem({
      metadata: storedMeta({ name: 'debian', namespace: 'ns', generation: 2 }),
      spec: { source: { upload: {} } },
      ...(status === undefined ? {} : { status }),
    });
    expect([item.state, item.usable]).toEqual([state, usable]);
  });
});

describe('the row of an image that is not ready', () => {
  test('is Failed with what the registry said where that refused', () => {
    expect(row('RegistryDenied', 'denied by r.example.com')).toMatchObject({
      state: 'Failed',
      errorMessage: 'denied by r.example.com',
    });
  });

  test.each([
    'RegistryUnreachable',
    'WorkerFailed',
    'WorkerRefused',
    'RunnerUnreachable',
    'DeletionRefused',
    'InUse',
  ])('is Updating with the trouble where it goes on by itself after %s', (reason) => {
    expect(row(reason, 'no answer')).toMatchObject({ state: 'Updating', errorMessage: 'no answer' });
  });

  test.each(['Working', 'Pending', 'SourceNotReady', 'AwaitingUpload'])(
    'has no trouble to tell with %s',
    (reason) => {
      expect(row(reason, 'in the middle')).toMatchObject({ state: 'Updating' });
      expect(row(reason, 'in the middle')).not.toHaveProperty('errorMessage');
    },
  );
});

test.each<[what: string, status: Image['status'], copyOf: string | undefined]>([
  ['is still to be made', undefined, 'golden'],
  ['waits for somebody', { conditions: [condition('Stalled', 'True', 'SourceNotFound')] }, 'golden'],
  ['is there', { digest: `sha256:${'a'.repeat(64)}` }, undefined],
  ['was refused', { conditions: [condition('Stalled', 'True', 'DiskRefused')] }, undefined],
])('a copy that %s says whether it still needs its source', (_what, status, copyOf) => {
  const item = imageItem({
    metadata: storedMeta({ name: 'mine', namespace: 'ns' }),
    spec: { source: { image: { name: 'golden' } } },
    ...(status === undefined ? {} : { status }),
  });
  expect(item.copyOf).toBe(copyOf);
});

const stalledBy = (reason: string) => ({ conditions: [condition('Stalled', 'True', reason)] });
test.each<[what: string, status: Image['status'], saveOf: string | undefined]>([
  ['is still to be made', undefined, 'web'],
  ['waits for somebody', stalledBy('RegistryDenied'), 'web'],
  ['is there', { digest: `sha256:${'a'.repeat(64)}` }, undefined],
  ['was refused', stalledBy('SourceDeleted'), undefined],
  ['has no store to go to', stalledBy('StoreMissing'), undefined],
])('a save that %s says whether it still needs its VM', (_what, status, saveOf) => {
  const item = imageItem({
    metadata: storedMeta({ name: 'mine', namespace: 'ns' }),
    spec: { source: { vm: { name: 'web', mode: 'Save' } } },
    ...(status === undefined ? {} : { status }),
  });
  expect(item.saveOf).toBe(saveOf);
  expect(schema.parse(item)).toEqual(item);
});

describe('the memory beside a disk', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const saved = { cpu: 2, cpuModel: 'Some CPU', accelerator: 'kvm', qemu: '10.0.3', stoppedMs: 43 } as const;
  const memory = { digest, size: '4Gi', cpuFlags: 'sse', ...saved };
  const shown = (status: Image['status']) =>
    imageItem({
      metadata: storedMeta({ name: 'warm', namespace: 'ns', generation: 1 }),
      spec: { source: { vm: { name: 'original', mode: 'SaveWithMemory' } } },
      ...(status === undefined ? {} : { status }),
    });

  test('is told with what it was saved on, but for a thousand features of a CPU', () => {
    const item = shown({ digest, memory });
    expect(item.memory).toEqual({ size: '4Gi', ...saved });
    expect(schema.parse(item)).toEqual(item);
  });

  test('of an operator that did not write all of it yet is told as it is', () => {
    const { cpu: _cpu, stoppedMs: _stoppedMs, ...before } = saved;
    expect(shown({ digest, memory: { digest, size: '4Gi', ...before } }).memory).toStrictEqual({
      size: '4Gi',
      ...before,
    });
  });

  test('is none where a commit has made a version without, and where there never was one', () => {
    const committed = `sha256:${'b'.repeat(64)}`;
    expect(shown({ digest: committed, memory })).not.toHaveProperty('memory');
    expect(shown({ digest })).not.toHaveProperty('memory');
    expect(shown({ memory })).not.toHaveProperty('memory');
  });
});
