import { describe, expect, test } from 'vitest';
import { badContents, lostSaves, missingFromStore } from '../../chaos/judges/images.ts';
import type { StoreSight } from '../../chaos/record/history.ts';
import { aHistory, anOperation, digest, eventSight, imageSight, s } from './builders.ts';

const save = anOperation({ at: 10, verb: 'save', image: 'saved' });

describe('a save that was accepted', () => {
  test('ends with a Ready image', () => {
    expect(lostSaves(aHistory({ operations: [save], sights: [imageSight(30)] }))).toEqual([]);
  });

  test('is lost where the image never becomes Ready, or never comes', () => {
    const failed = [imageSight(20, { ready: false }), imageSight(90, { ready: false })];
    for (const sights of [failed, []]) {
      const [found] = lostSaves(aHistory({ operations: [save], sights }));
      expect(found?.object).toBe('team/saved');
      expect(found?.evidence.join('\n')).toContain('save web → saved');
    }
  });

  test('was Ready, and its user has deleted it since', () => {
    const sights = [imageSight(30), imageSight(40, {}, 'DELETED')];
    expect(lostSaves(aHistory({ operations: [save], sights }))).toEqual([]);
  });

  test('may be given up by its user', () => {
    const given = anOperation({ at: 20, verb: 'deleteImage', name: 'saved' });
    expect(lostSaves(aHistory({ operations: [save, given] }))).toEqual([]);
  });

  test('is lost where the image had failed before its user, or the end of the run, deleted it', () => {
    const given = anOperation({ at: 60, verb: 'deleteImage', name: 'saved' });
    const failedAt = (at: number) => [imageSight(at, { ready: false, stalled: true })];
    expect(lostSaves(aHistory({ operations: [save, given], sights: failedAt(20) }))).toHaveLength(1);
    expect(lostSaves(aHistory({ operations: [save, given], sights: failedAt(70) }))).toEqual([]);
  });

  test('cannot be had where the Ephemeral disk went with its pod', () => {
    expect(lostSaves(aHistory({ operations: [save], sights: [eventSight(15, 'DiskReset')] }))).toEqual([]);
    expect(lostSaves(aHistory({ operations: [save], sights: [eventSight(5, 'DiskReset')] }))).toHaveLength(1);
  });

  test('is nobody else’s', () => {
    const refused = { ...save, outcome: 'refused' as const };
    expect(lostSaves(aHistory({ operations: [refused] }))).toEqual([]);
  });
});

describe('an image that is Ready', () => {
  const at = (seconds: number, digests: readonly string[], until = seconds): StoreSight => ({
    at: s(seconds),
    until: s(until),
    repositories: new Map([['svc3/team/saved', new Set(digests)]]),
  });
  const found = (store: StoreSight[], sights = [imageSight(30)]): number =>
    missingFromStore(aHistory({ store, sights })).length;

  test('is in the registry', () => {
    expect(found([at(40, [digest]), at(50, [digest, 'sha256:other'])])).toBe(0);
  });

  test('is missing', () => {
    expect(found([at(40, [digest]), at(50, [])])).toBe(1);
    expect(found([at(40, ['sha256:other'])])).toBe(1);
    expect(found([{ at: s(40), until: s(40), repositories: new Map() }])).toBe(1);
  });

  test('may be missing before and after', () => {
    expect(found([at(20, []), at(40, [digest])])).toBe(0);
    expect(found([at(60, [])], [imageSight(30), imageSight(50, { deleted: true })])).toBe(0);
    expect(found([at(60, [])], [imageSight(30), imageSight(50, {}, 'DELETED')])).toBe(0);
  });

  test('may be deleted while the registry is being looked at', () => {
    const sights = [imageSight(30), imageSight(50, { deleted: true })];
    expect(found([at(40, [], 44)], sights)).toBe(1);
    expect(found([at(40, [], 51)], sights)).toBe(0);
  });

  test('is another version after a commit', () => {
    const sights = [imageSight(30), imageSight(60, { digest: 'sha256:new' })];
    expect(found([at(40, [digest]), at(80, ['sha256:new'])], sights)).toBe(0);
    expect(found([at(40, [digest]), at(80, [digest])], sights)).toBe(1);
  });
});

describe('what was read of disks', () => {
  const check = { at: s(50), namespace: 'team', image: 'saved', digest, marker: 'm' };
  const disk = { at: s(50), namespace: 'team', vm: 'web', vmUid: 'vm-uid' };

  test('is well', () => {
    const contents = [{ ...check, problem: undefined }];
    expect(badContents(aHistory({ contents, disks: [{ ...disk, missing: [] }] }))).toEqual([]);
  });

  test('is not what was written', () => {
    const contents = [{ ...check, problem: 'm is not in it' }];
    expect(badContents(aHistory({ contents }))).toMatchObject([{ object: 'team/saved' }]);
    expect(badContents(aHistory({ disks: [{ ...disk, missing: ['m'] }] }))).toMatchObject([
      { object: 'team/web' },
    ]);
  });
});
