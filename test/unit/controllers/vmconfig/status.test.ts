import { describe, expect, test } from 'vitest';
import type { VmConfigStatus } from '../../../../src/api/vmconfig.ts';
import { awaitedMs, statusOf } from '../../../../src/controllers/vmconfig/status.ts';
import type { Verdict } from '../../../../src/controllers/vmconfig/verdict.ts';
import { aConfig, condition } from './builders.ts';

const now = new Date('2026-01-01T01:00:00Z');
const good: Verdict = { isReady: true, reason: 'Resolved', message: 'all there' };
const missing: Verdict = { isReady: false, reason: 'ImageNotFound', message: 'gone', waitsFor: 'applyOrder' };
const working: Verdict = { isReady: false, reason: 'ImageNotReady', message: 'soon', waitsFor: 'svc3' };
const waiting: Verdict = { isReady: false, reason: 'ImageNotReady', message: 'load', waitsFor: 'person' };

const before = (status: 'True' | 'False', secondsAgo: number): VmConfigStatus => ({
  conditions: [condition('Ready', status, 'Any', new Date(now.getTime() - secondsAgo * 1_000).toISOString())],
});
const lines = (verdict: Verdict, status?: VmConfigStatus) =>
  statusOf(aConfig({}, status), verdict, now).conditions?.map((each) =>
    [`${each.type}=${each.status}`, each.reason, each.message].join(' '),
  );

describe('the status of a VMConfig', () => {
  test.each([
    ['is ready', good, undefined, ['Ready=True Resolved all there']],
    [
      'is ready again',
      good,
      {
        conditions: [
          condition('Ready', 'False', 'ImageNotFound'),
          condition('Stalled', 'True', 'ImageNotFound'),
        ],
      },
      ['Ready=True Resolved all there'],
    ],
    [
      'waits for work of svc3, however long that takes',
      working,
      before('False', 3_600),
      ['Ready=False ImageNotReady soon', 'Reconciling=True Progressing soon'],
    ],
    [
      'waits for somebody from the first second on',
      waiting,
      undefined,
      ['Ready=False ImageNotReady load', 'Stalled=True ImageNotReady load'],
    ],
    [
      'was made before its Image',
      missing,
      undefined,
      ['Ready=False ImageNotFound gone', 'Reconciling=True Progressing gone'],
    ],
    [
      'has just lost its Image',
      missing,
      before('True', 3_600),
      ['Ready=False ImageNotFound gone', 'Reconciling=True Progressing gone'],
    ],
    [
      'has no Image for less than a minute',
      missing,
      before('False', 59),
      ['Ready=False ImageNotFound gone', 'Reconciling=True Progressing gone'],
    ],
    [
      'has no Image for a minute',
      missing,
      before('False', 60),
      ['Ready=False ImageNotFound gone', 'Stalled=True ImageNotFound gone'],
    ],
  ] as const)('where it %s', (_, verdict, status, expected) => {
    expect(lines(verdict, status as VmConfigStatus | undefined)).toEqual(expected);
  });

  test('is of the generation that was looked at, and the same again where nothing has changed', () => {
    const first = statusOf(aConfig({}), missing, now);
    expect(first.observedGeneration).toBe(3);
    expect(first.conditions?.map(({ observedGeneration }) => observedGeneration)).toEqual([3, 3]);
    const later = new Date(now.getTime() + 30_000);
    expect(statusOf(aConfig({}, first), missing, later)).toEqual(first);
  });
});

test('is looked at again when what is missing has had its minute, and only then', () => {
  expect(awaitedMs(aConfig({}), missing, now)).toBe(60_000);
  expect(awaitedMs(aConfig({}, before('False', 20)), missing, now)).toBe(40_000);
  expect(awaitedMs(aConfig({}, before('False', 60)), missing, now)).toBeUndefined();
  for (const verdict of [good, working, waiting])
    expect(awaitedMs(aConfig({}), verdict, now)).toBeUndefined();
});
