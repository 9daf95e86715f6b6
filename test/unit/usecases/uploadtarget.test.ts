import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Image, ImageStatus } from '../../../src/api/image.ts';
import { leavesOpen, Svc3Error, type ErrorReason } from '../../../src/errors.ts';
import { createUploadTargets, type UploadTarget } from '../../../src/usecases/uploadtarget.ts';
import { anImage, condition } from '../controllers/image/builders.ts';

const digest = `sha256:${'b'.repeat(64)}`;
const target: UploadTarget = { kind: 'Image', namespace: 'team', name: 'disk' };
const said = { description: 'mine' };
const upload = { id: 'one', digest, uid: undefined, description: 'mine' };

/** As kube-apiserver has it. */
let stored: Image | undefined;
const create = vi.fn();
const patch = vi.fn();
const targets = createUploadTargets({
  create,
  patch,
  async get() {
    if (stored === undefined) throw new Svc3Error('NotFound', 'no');
    return stored;
  },
} as never);

beforeEach(() => {
  stored = undefined;
  create.mockReset().mockResolvedValue('created');
  patch.mockReset().mockResolvedValue('patched');
});

const awaiting = (annotations?: Record<string, string>, status?: ImageStatus) =>
  anImage({ upload: {} }, status, annotations === undefined ? {} : { annotations });
const sent = { 'svc3.dev/upload': digest, 'svc3.dev/upload-id': 'one' };
const refused = (request: string, reason = 'DiskRefused'): ImageStatus => ({
  request,
  conditions: [condition('Stalled', 'True', reason)],
});

describe('a name', () => {
  test.each<[string, Image | undefined, string | undefined]>([
    ['that nobody has', undefined, undefined],
    ['of an Image that waits for its upload', awaiting(), 'uid-1'],
    ['of an Image that refused the upload before', awaiting(sent, refused('b'.repeat(64))), 'uid-1'],
    ['of an Image whose upload is lost', awaiting(sent, refused('b'.repeat(64), 'UploadLost')), 'uid-1'],
  ])('%s takes an upload', async (_, image, uid) => {
    stored = image;
    expect(await targets.look(target, said)).toBe(uid);
  });

  test('that nobody has is tried out as what the upload will become, and nothing is made', async () => {
    await targets.look(target, { ...said, architecture: 'arm64' });
    expect(create.mock.calls).toHaveLength(1);
    const [, tried, options] = create.mock.calls[0] ?? [];
    expect(options).toEqual({ dryRun: true });
    await targets.handOver(target, { ...upload, architecture: 'arm64' });
    const [, made, written] = create.mock.calls[1] ?? [];
    expect(written).toBeUndefined();
    const { annotations, ...metadata } = tried.metadata;
    expect({ ...tried, metadata }).toEqual({ ...made, metadata: { name: 'disk', namespace: 'team' } });
    expect(Object.keys(annotations)).toEqual(Object.keys(made.metadata.annotations));
  });

  test.each<ErrorReason>(['Invalid', 'Forbidden', 'NotFound'])(
    'that kube-apiserver would refuse (%s) is refused before the first byte',
    async (reason) => {
      create.mockRejectedValue(new Svc3Error(reason, 'exceeded quota'));
      await expect(targets.look(target, said)).rejects.toMatchObject({ reason, message: 'exceeded quota' });
    },
  );

  test('of an Image that waits is not tried out', async () => {
    stored = awaiting();
    await targets.look(target, said);
    expect(create).not.toHaveBeenCalled();
  });

  test.each<[string, Image, string]>([
    ['of an Image from elsewhere', anImage({ blank: { size: '1Gi' } }), 'already exists'],
    ['of an Image whose upload is being inspected', awaiting(sent), 'already exists'],
    ['of an Image that lost its annotations once it was stored', awaiting({}, { digest }), 'already exists'],
    [
      'of an Image that refused another upload than the last one',
      awaiting(sent, refused('a'.repeat(64))),
      'already exists',
    ],
    [
      'of an Image that is stalled for another reason',
      awaiting(sent, { request: 'b'.repeat(64), conditions: [condition('Stalled', 'True', 'StoreMissing')] }),
      'already exists',
    ],
    [
      'of an Image that is being deleted',
      anImage({ upload: {} }, undefined, { deletionTimestamp: 'now' }),
      'is being deleted; its name can be used again',
    ],
  ])('%s is taken', async (_, image, message) => {
    stored = image;
    await expect(targets.look(target, said)).rejects.toMatchObject({
      reason: 'AlreadyExists',
      message: expect.stringContaining(message),
      details: { kind: 'images', name: 'disk' },
    });
  });
});

describe('an upload that is whole', () => {
  test('becomes an Image where there is none', async () => {
    expect(await targets.handOver(target, upload)).toBe('created');
    expect(create.mock.calls[0]?.[1]).toMatchObject({
      metadata: { name: 'disk', namespace: 'team', annotations: sent },
      spec: { description: 'mine', source: { upload: {} } },
    });
  });

  test('is handed to exactly the version of the Image that waits for it', async () => {
    stored = awaiting();
    expect(await targets.handOver(target, { ...upload, uid: 'uid-1' })).toBe('patched');
    const { uid, resourceVersion } = stored.metadata;
    expect(patch.mock.calls[0]?.[2].body).toEqual({ metadata: { annotations: sent, uid, resourceVersion } });
  });

  test.each([undefined, awaiting({ 'svc3.dev/architecture': 'amd64' })])(
    'says for which guests it is, where its client did, also to an object that waits: %j',
    async (waiting) => {
      stored = waiting;
      const written = async (architecture?: 'arm64') => {
        await targets.handOver(target, { ...upload, architecture });
        const [created] = create.mock.calls.splice(0);
        const [patched] = patch.mock.calls.splice(0);
        return created?.[1].metadata.annotations ?? patched?.[2].body.metadata.annotations;
      };
      expect(await written('arm64')).toEqual({ ...sent, 'svc3.dev/architecture': 'arm64' });
      expect(await written()).toEqual(sent);
    },
  );

  test.each([
    ['is gone', undefined],
    ['is another by now', anImage({ upload: {} }, undefined, { uid: 'another' })],
  ])('makes no Image anew where the one that waited %s', async (_, image) => {
    stored = image;
    await expect(targets.handOver(target, { ...upload, uid: 'uid-1' })).rejects.toMatchObject({
      reason: 'NotFound',
    });
    expect([create.mock.calls, patch.mock.calls]).toEqual([[], []]);
  });

  test('is handed over again where somebody else has written in between, five times at most', async () => {
    stored = awaiting();
    patch.mockRejectedValueOnce(new Svc3Error('Conflict', 'written since'));
    expect(await targets.handOver(target, upload)).toBe('patched');
    patch.mockReset().mockRejectedValue(new Svc3Error('Conflict', 'written since'));
    await expect(targets.handOver(target, upload)).rejects.toMatchObject({ reason: 'Conflict' });
    expect(patch).toHaveBeenCalledTimes(5);
  });

  test('is refused where somebody else was faster to upload', async () => {
    stored = awaiting();
    patch.mockImplementationOnce(async () => {
      stored = awaiting({ ...sent, 'svc3.dev/upload-id': 'two' });
      throw new Svc3Error('Conflict', 'written since');
    });
    await expect(targets.handOver(target, upload)).rejects.toMatchObject({ reason: 'AlreadyExists' });
  });

  test.each([true, false])('whose answer was lost is looked for: it was done %s', async (isDone) => {
    create.mockImplementationOnce(async () => {
      if (isDone) stored = awaiting(sent);
      throw new Svc3Error('InternalError', 'the connection was cut');
    });
    const answer = await targets.handOver(target, upload).catch((error: unknown) => error);
    if (isDone) expect(answer).toBe(stored);
    else expect(leavesOpen(answer)).toBe(true);
  });

  test('is found again by its id, and by no other', async () => {
    stored = awaiting(sent);
    expect(await targets.takenBy(target, 'one')).toBe(stored);
    expect(await targets.takenBy(target, 'two')).toBeUndefined();
    stored = undefined;
    expect(await targets.takenBy(target, 'one')).toBeUndefined();
  });
});

test('an outage is none of these answers', async () => {
  const away = new Svc3Error('ServiceUnavailable', 'away');
  const unreachable = createUploadTargets({ get: () => Promise.reject(away) } as never);
  await expect(unreachable.look(target, said)).rejects.toBe(away);
  await expect(unreachable.takenBy(target, 'one')).rejects.toBe(away);
});
