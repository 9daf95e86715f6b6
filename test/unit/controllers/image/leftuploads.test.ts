import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { ImageStatus } from '../../../../src/api/image.ts';
import type { Disk } from '../../../../src/controllers/image/caches.ts';
import { LeftUploads } from '../../../../src/controllers/image/leftuploads.ts';
import type { NamespaceRegistries } from '../../../../src/controllers/image/registries.ts';
import { type ErrorReason, Svc3Error } from '../../../../src/errors.ts';
import { uploadTag, writeParts } from '../../../../src/registry/parts.ts';
import { type MemoryRegistry, memoryRegistry } from '../../registry/memoryregistry.ts';
import { anImage, condition, digest } from './builders.ts';

const hourMs = 3_600_000;
const expiryMs = 24 * hourMs;
const path = { registry: 'store.example.com', repository: 'svc3/team/disk' };
const takenAt = Date.parse('2026-11-01T10:00:00Z');
/** When what was taken then is looked at. */
const dueAt = takenAt + expiryMs;

let store: MemoryRegistry;
/** How often the store was opened. */
let looks: number;
let left: LeftUploads;
let outage: Error | undefined;

beforeEach(() => {
  store = memoryRegistry();
  looks = 0;
  outage = undefined;
  left = newLeftUploads();
});

function newLeftUploads(): LeftUploads {
  const registries = {
    async open() {
      looks += 1;
      if (outage !== undefined) throw outage;
      return store;
    },
  } as unknown as NamespaceRegistries;
  return new LeftUploads(registries, expiryMs, () => 0.5);
}

const at = (type: string, status: 'True' | 'False', reason: string) => ({
  ...condition(type, status, reason),
  lastTransitionTime: new Date(takenAt).toISOString(),
});
const stored = anImage(
  { upload: {} },
  { digest, request: 'one', conditions: [at('Ready', 'True', 'Stored')] },
);
const refused = anImage(
  { upload: {} },
  {
    request: 'one',
    conditions: [condition('Ready', 'False', 'DiskRefused'), at('Stalled', 'True', 'DiskRefused')],
  },
);
const look = (now: number, disk: Disk = stored) => left.look({ disk, path, now });

/** An upload that was gone on with for the last time at that moment. */
async function upload(id: string, writtenAt: number): Promise<void> {
  vi.useFakeTimers({ toFake: ['Date'], now: writtenAt });
  const reference = { repository: path.repository, tag: uploadTag(id) };
  await writeParts(store, reference, { parts: [], annotations: { id } });
  vi.useRealTimers();
}

describe.each([
  ['stored', stored],
  ['refused', refused],
])('beside an upload that was %s', (_, disk) => {
  beforeEach(() => look(takenAt, disk));

  test('the others are looked at once their time is over', async () => {
    await upload('old', takenAt - hourMs);
    expect(await look(takenAt + hourMs, disk)).toEqual({ requeueAfterMs: 23 * hourMs });
    expect(looks).toBe(0);
    await look(dueAt, disk);
    expect(await store.tags(path.repository)).toEqual([]);
  });

  test('one that somebody has gone on with meanwhile is looked at when it may be over', async () => {
    await upload('going', takenAt + hourMs);
    await upload('later', takenAt + 2 * hourMs);
    expect(await look(dueAt, disk)).toEqual({ requeueAfterMs: hourMs + 1 });
    expect(await look(dueAt + hourMs, disk)).toEqual({ requeueAfterMs: 1 });
    expect(looks).toBe(1);
    expect(await look(dueAt + hourMs + 1, disk)).toEqual({ requeueAfterMs: hourMs });
    expect(await store.tags(path.repository)).toEqual([uploadTag('later')]);
  });

  test.each<[string, Error]>([
    ['is away', new Error('the store is away')],
    ['denies access', new Svc3Error('Forbidden', 'denied access')],
    ['is read-only', new Svc3Error('MethodNotAllowed', 'answered 405')],
  ])('one in a store that %s is looked at again', async (_sentence, failure) => {
    await upload('old', takenAt);
    outage = failure;
    expect(await look(dueAt + 1, disk)).toEqual({ requeueAfterMs: expiryMs });
    outage = undefined;
    await look(dueAt + 1 + expiryMs, disk);
    expect(await store.tags(path.repository)).toEqual([]);
  });

  test('those of before this process are looked at within an hour: not all at once', async () => {
    await upload('old', takenAt);
    const now = dueAt + 100 * hourMs;
    left = newLeftUploads();
    expect(await look(now, disk)).toEqual({ requeueAfterMs: hourMs / 2 });
    await look(now + hourMs / 2, disk);
    expect(await store.tags(path.repository)).toEqual([]);
  });
});

describe('once there is nothing left', () => {
  beforeEach(() => look(takenAt));

  test('nothing more is asked for what is stored', async () => {
    expect(await look(dueAt)).toBeUndefined();
    expect(await look(dueAt + expiryMs)).toBeUndefined();
    expect(looks).toBe(1);
  });

  test('what was refused is looked at day by day: another upload may begin', async () => {
    expect(await look(dueAt, refused)).toEqual({ requeueAfterMs: expiryMs });
    expect(await look(dueAt + hourMs, refused)).toEqual({ requeueAfterMs: 23 * hourMs });
    await upload('next', dueAt - 1);
    await look(dueAt + expiryMs, refused);
    expect([await store.tags(path.repository), looks]).toEqual([[], 2]);
  });

  test('another upload that was taken is another beginning', async () => {
    await look(dueAt, refused);
    const conditions = [
      { ...at('Ready', 'True', 'Stored'), lastTransitionTime: new Date(dueAt).toISOString() },
    ];
    const again = { ...refused, status: { digest, request: 'two', conditions } };
    expect(await look(dueAt + hourMs, again)).toEqual({ requeueAfterMs: 23 * hourMs });
  });

  test('one that was forgotten is looked at again', async () => {
    await look(dueAt);
    left.forget(stored.metadata.uid);
    expect(await look(dueAt + hourMs)).toEqual({ requeueAfterMs: hourMs / 2 });
  });

  test.each<[string, () => void | Promise<void>]>([
    [
      'of a store that deletes nothing',
      async () => {
        await upload('old', takenAt);
        const reason: ErrorReason = 'MethodNotAllowed';
        const words = 'registry store.example.com answered 405 (UNSUPPORTED: The operation is unsupported.)';
        store.deleteManifest = () => Promise.reject(new Svc3Error(reason, words));
      },
    ],
    [
      'with a list of an earlier version, which says no time',
      () => {
        const config = { mediaType: 'application/vnd.svc3.upload.config.v1+json', digest, size: 2 };
        store.put(path.repository, uploadTag('undated'), { schemaVersion: 2, config, layers: [] });
      },
    ],
  ])('that can go, %s, nothing more is asked either', async (_, given) => {
    await given();
    expect(await look(dueAt + 1)).toBeUndefined();
    expect(await look(dueAt + expiryMs)).toBeUndefined();
    expect([(await store.tags(path.repository)).length, looks]).toEqual([1, 1]);
  });
});

test.each<[string, Partial<Parameters<LeftUploads['look']>[0]>]>([
  ['of another source', { disk: anImage({ blank: { size: '1Gi' } }, stored.status) }],
  ['of an installation that has no store', { path: undefined }],
])('what is %s is never looked at', async (_, more) => {
  expect(await left.look({ disk: stored, path, now: dueAt, ...more })).toBeUndefined();
  expect(looks).toBe(0);
});

test('what does not say since when it is as it is counts from now', async () => {
  const status: ImageStatus = { digest };
  expect(await look(dueAt, anImage({ upload: {} }, status))).toEqual({ requeueAfterMs: expiryMs });
});
