import { describe, expect, test } from 'vitest';
import type { Image, ImageStatus } from '../../../../src/api/image.ts';
import { reasonTable } from '../../../../src/api/reasontable.ts';
import type { VmConfigSpec } from '../../../../src/api/vmconfig.ts';
import { diskNamed, judge, problemOf } from '../../../../src/controllers/vmconfig/verdict.ts';
import { anImage } from '../image/builders.ts';
import { aConfig, condition } from './builders.ts';

const reference = 'registry.example.com/team/debian:12';
const stored: ImageStatus = {
  reference: 'store.example.com/svc3/team/base@sha256:0',
  conditions: [condition('Ready', 'True', 'Stored')],
};
const working: ImageStatus = {
  progress: 7,
  conditions: [condition('Ready', 'False', 'Working'), condition('Reconciling', 'True', 'Progressing')],
};
const waiting: ImageStatus = {
  conditions: [condition('Ready', 'False', 'AwaitingUpload'), condition('Stalled', 'True', 'AwaitingUpload')],
};
const disk = (status?: ImageStatus, metadata = {}) => anImage({ upload: {} }, status, metadata);
const leaving = disk(stored, { deletionTimestamp: '2026-01-01T00:00:00Z' });

/** What is said where the namespace has this Image `base` and this ISO `tools`. */
const told = (spec: VmConfigSpec, image?: Image, iso?: Image) =>
  judge(aConfig(spec), {
    image: (name) => (name === 'base' ? image : undefined),
    iso: (name) => (name === 'tools' ? iso : undefined),
  });

describe('a VMConfig is ready', () => {
  test.each([
    ['with its Image', { image: 'base' }, 'Resolved', 'Image base is ready'],
    ['with its ISO', { iso: 'tools' }, 'Resolved', 'ISO tools is ready'],
    ['with both', { image: 'base', iso: 'tools' }, 'Resolved', 'Image base is ready; ISO tools is ready'],
    ['where it names none', { iso: '' }, 'Resolved', 'names no Image and no ISO'],
    [
      'as far as is known where it names a registry',
      { image: reference, iso: 'tools' },
      'RegistryNotAsked',
      `image ${reference} is not looked for before a VM is deployed; ISO tools is ready`,
    ],
    [
      'as far as is known where its ISO lies at a registry',
      { image: 'base', iso: reference },
      'RegistryNotAsked',
      `Image base is ready; ISO ${reference} is not looked for before a VM is deployed`,
    ],
  ] as const)('%s', (_, spec, reason, message) => {
    expect(told(spec, disk(stored), disk(stored))).toEqual({ isReady: true, reason, message });
  });
});

describe('a VMConfig is not ready', () => {
  test.each([
    ['NotFound', undefined, 'applyOrder', 'does not exist in namespace team'],
    ['Terminating', leaving, 'applyOrder', 'in namespace team is being deleted'],
    ['NotReady', disk(), 'svc3', 'in namespace team is not ready'],
    ['NotReady', disk(working), 'svc3', 'in namespace team is not ready'],
    ['NotReady', disk(waiting), 'person', 'in namespace team is not ready: AwaitingUpload of it'],
    // Ready without a reference is what nobody can mount.
    ['NotReady', disk({ conditions: stored.conditions }), 'svc3', 'in namespace team is not ready'],
  ] as const)('with a disk that is %s (%#)', (what, found, waitsFor, text) => {
    const ofImage = { reason: `Image${what}`, message: `Image base ${text}`, waitsFor };
    const ofIso = { reason: `ISO${what}`, message: `ISO tools ${text}`, waitsFor };
    expect(told({ image: 'base' }, found)).toEqual({ isReady: false, ...ofImage });
    expect(told({ image: reference, iso: 'tools' }, undefined, found)).toEqual({ isReady: false, ...ofIso });
    for (const reason of [ofImage.reason, ofIso.reason]) {
      const rows = reasonTable.filter((each) => each.kind === 'VMConfig' && each.reason === reason);
      expect(rows.map(({ type }) => type)).toEqual(['Ready', 'Stalled']);
    }
  });

  test.each([
    ['what somebody does before what may come', disk(waiting), undefined, 'ImageNotReady', 'person'],
    ['what may come before what is being made', disk(working), undefined, 'ISONotFound', 'applyOrder'],
    ['the Image where both are alike', undefined, undefined, 'ImageNotFound', 'applyOrder'],
  ] as const)('and names of two problems both, as its reason %s', (_, image, iso, reason, waitsFor) => {
    const verdict = told({ image: 'base', iso: 'tools' }, image, iso);
    expect(verdict).toMatchObject({ isReady: false, reason, waitsFor });
    expect(verdict.message).toMatch(/^Image base .*; ISO tools .*/);
  });
});

test('what a disk says of the work at it changes nothing, and little is quoted of what it waits for', () => {
  const problem = (status: ImageStatus) =>
    problemOf('Image', { name: 'base', namespace: 'team' }, disk(status));
  const failing = {
    conditions: [{ ...condition('Ready', 'False', 'WorkerFailed'), message: 'out of disk' }],
  };
  expect(problem(failing)).toEqual(problem(working));
  const long = {
    conditions: [{ ...condition('Stalled', 'True', 'DiskRefused'), message: 'x'.repeat(32_768) }],
  };
  expect(problem(long)?.message.length).toBeLessThan(1_100);
});

test('only names of the namespace lead from an Image or ISO to a VMConfig', () => {
  const both = aConfig({ image: 'base', iso: 'tools' });
  expect([diskNamed(both, 'Image'), diskNamed(both, 'ISO')]).toEqual(['base', 'tools']);
  const neither = aConfig({ image: reference, iso: '' });
  expect([diskNamed(neither, 'Image'), diskNamed(neither, 'ISO')]).toEqual([undefined, undefined]);
  expect(diskNamed(aConfig({}), 'Image')).toBeUndefined();
});
