import { describe, expect, test } from 'vitest';
import {
  refusedStatus,
  sizeText,
  storedBy,
  storedStatus,
  verdictStatus,
} from '../../../../src/controllers/image/status.ts';
import { diskWaitsForPerson } from '../../../../src/api/reasons.ts';
import { reasonTable } from '../../../../src/api/reasontable.ts';
import { anImage, condition, digest, done } from './builders.ts';

const now = new Date('2026-02-02T00:00:00Z');
const path = { registry: 'store.example.com', repository: 'svc3/team/disk' };
const reasons = (conditions: { type: string; status: string; reason: string }[] | undefined) =>
  conditions?.map(({ type, status, reason }) => `${type}=${status} ${reason}`);

describe('the status of a disk', () => {
  test('that was made says where it lies and that it is ready', () => {
    const disk = anImage({ blank: { size: '1Gi' } }, { progress: 40, worker: 'pod' });
    const status = storedStatus(disk, now, { stored: storedBy(done, path), answer: {} });
    expect(status).toMatchObject({
      digest,
      reference: `store.example.com/svc3/team/disk@${digest}`,
      size: '1Gi',
      storedSize: '1Mi',
      observedGeneration: 1,
    });
    expect(status).not.toHaveProperty('progress');
    expect(status).not.toHaveProperty('worker');
    expect(reasons(status.conditions)).toEqual(['Ready=True Stored']);
  });

  test.each(['AwaitingUpload', 'UploadAbandoned'])(
    'that is stored asks for no upload any more: %s',
    (reason) => {
      const conditions = [condition('Ready', 'True', 'Stored'), condition('Committed', 'False', reason)];
      const status = storedStatus(anImage({ upload: {} }, { digest, conditions }), now);
      expect(reasons(status.conditions)).toEqual(['Ready=True Stored']);
    },
  );

  const refusedBefore = condition('Committed', 'False', 'DiskRefused');
  test.each<[string, object, boolean]>([
    ['is under way', condition('Committed', 'Unknown', 'Working'), false],
    ['waits', condition('Committed', 'False', 'RegistryDenied'), false],
    ['was refused', refusedBefore, false],
    ['is in the store', condition('Committed', 'True', 'Stored'), true],
    ['is an upload over it that was refused', { ...refusedBefore, observedGeneration: 2 }, true],
  ])('that is stored says of a commit that %s, and nobody asks for: %o %s', (_, said, stays) => {
    const conditions = [condition('Ready', 'True', 'Stored'), said] as never;
    const disk = anImage({ blank: { size: '1Gi' } }, { digest, conditions }, { generation: 2 });
    const status = storedStatus(disk, now);
    expect(status.conditions?.some(({ type }) => type === 'Committed')).toBe(stays);
    expect(status.observedGeneration).toBe(2);
    // Who asks for it is told on.
    const asked = { ...disk, spec: { ...disk.spec, commit: { vm: 'web', request: 'one' } } };
    expect(storedStatus(asked, now).conditions?.some(({ type }) => type === 'Committed')).toBe(true);
  });

  test('that is being made is not ready and says how far it is', () => {
    const status = verdictStatus(
      anImage({ upload: {} }),
      { reason: 'Working', message: 'm', progress: 7 },
      now,
    );
    expect(status).toMatchObject({ progress: 7, observedGeneration: 1 });
    expect(reasons(status.conditions)).toEqual(['Ready=False Working', 'Reconciling=True Progressing']);
  });

  test('stays ready with its version while a commit is under way, but has not observed it', () => {
    const disk = anImage(
      { blank: { size: '1Gi' } },
      { digest, observedGeneration: 1, conditions: [condition('Ready', 'True', 'Stored')] },
      { generation: 2 },
    );
    const taken = { vmUid: 'u', podUid: undefined };
    const status = verdictStatus(disk, { reason: 'Working', message: 'm' }, now, { taken });
    expect(reasons(status.conditions)).toEqual([
      'Ready=True Stored',
      'Committed=Unknown Working',
      'Reconciling=True Progressing',
    ]);
    expect(status).toMatchObject({ observedGeneration: 1, vmUid: 'u' });
    const begun = { ...disk, status };
    const refused = refusedStatus(begun, { reason: 'DiskRefused', message: 'm' }, now, {
      commitRequest: 'r',
    });
    expect(reasons(refused.conditions)).toEqual(['Ready=True Stored', 'Committed=False DiskRefused']);
    expect(refused).toMatchObject({ observedGeneration: 2, commitRequest: 'r', digest });
    expect(refused).not.toHaveProperty('vmUid');
    const made = storedStatus({ ...disk, status: refused }, now, {
      stored: storedBy(done, path),
      answer: { commitRequest: 's' },
    });
    expect(reasons(made.conditions)).toEqual(['Ready=True Stored', 'Committed=True Stored']);
  });

  test('says of which commit it is that the disk of a VM is taken, and nothing once that is answered', () => {
    const commit = { vm: 'web', request: 'two' };
    const before = { vmUid: 'other', vmRequest: 'one', vmPodUid: 'of the other' };
    const image = anImage({ blank: { size: '1Gi' } }, { digest, ...before });
    const disk = { ...image, spec: { ...image.spec, commit } };
    const noted = (podUid: string | undefined) =>
      verdictStatus(disk, { reason: 'Working', message: 'm' }, now, { taken: { vmUid: 'u', podUid } });
    expect(noted(undefined)).not.toHaveProperty('vmPodUid');
    const status = noted('p');
    expect(status).toMatchObject({ vmUid: 'u', vmRequest: 'two', vmPodUid: 'p' });
    const refused = refusedStatus({ ...disk, status }, { reason: 'DiskRefused', message: 'm' }, now, {});
    const made = { stored: storedBy(done, path), answer: {} };
    for (const answered of [refused, storedStatus({ ...disk, status }, now, made)])
      expect(Object.keys(answered).filter((key) => key.startsWith('vm'))).toEqual([]);
  });

  test('of a disk that is being deleted is no longer ready', () => {
    const disk = anImage(
      { upload: {} },
      { digest, conditions: [condition('Ready', 'True', 'Stored')] },
      { deletionTimestamp: '2026-01-01T00:00:00Z' },
    );
    const status = verdictStatus(disk, { reason: 'InUse', message: 'in use by VM a' }, now);
    expect(reasons(status.conditions)).toEqual(['Ready=False InUse']);
  });

  test.each(
    reasonTable.filter(
      ({ kind, type, status }) => kind === 'Image, ISO' && type === 'Ready' && status === 'False',
    ),
  )(
    'that is not ready is Stalled where somebody has to act, else Reconciling, and never both: $reason',
    ({ reason }) => {
      const { conditions } = verdictStatus(anImage({ upload: {} }), { reason, message: 'm' }, now);
      // What is being deleted is `Terminating` for kstatus, whatever its conditions say.
      const others = reason === 'InUse' ? [] : [diskWaitsForPerson.has(reason) ? 'Stalled' : 'Reconciling'];
      expect(conditions?.map(({ type }) => type)).toEqual(['Ready', ...others]);
      expect(reasons(conditions)?.[0]).toBe(`Ready=False ${reason}`);
    },
  );

  test('says of what waits for somebody exactly what docs/conditions.md lists', () => {
    const listed = reasonTable.filter(({ kind, type }) => kind === 'Image, ISO' && type === 'Stalled');
    expect(new Set(listed.map(({ reason }) => reason))).toEqual(diskWaitsForPerson);
  });

  test('goes on as soon as an upload comes', () => {
    const waiting = verdictStatus(anImage({ upload: {} }), { reason: 'AwaitingUpload', message: 'm' }, now);
    const going = verdictStatus(anImage({ upload: {} }, waiting), { reason: 'Working', message: 'm' }, now);
    expect(reasons(going.conditions)).toEqual(['Ready=False Working', 'Reconciling=True Progressing']);
  });

  test.each([
    [2 ** 30, '1Gi'],
    [120e9, '120G'],
    [1_500_000_000, '1500M'],
    [65 * 2 ** 20, '65Mi'],
    [1000, '1000'],
  ])('says %d bytes as %s', (bytes, text) => {
    expect(sizeText(bytes)).toBe(text);
  });
});
