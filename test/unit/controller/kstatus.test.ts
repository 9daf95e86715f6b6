import { describe, expect, test } from 'vitest';
import type { Condition } from '../../../src/api/object.ts';
import { applyOrderLeftMs, type Progress, readyStatus } from '../../../src/controller/kstatus.ts';

const now = new Date('2026-11-01T10:00:00Z');
const after = (ms: number): Date => new Date(now.getTime() + ms);
const ready = (status: Condition['status']): Condition[] => [
  {
    type: 'Ready',
    status,
    reason: 'Why',
    message: '',
    observedGeneration: 1,
    lastTransitionTime: '2026-11-01T10:00:00Z',
  },
];

describe('the status of an object as kstatus reads it', () => {
  const told = { isReady: false, reason: 'Why', message: 'because' };
  const statusOf = (progress: Progress, conditions?: Condition[]) =>
    readyStatus(
      { metadata: { generation: 3 }, ...(conditions === undefined ? {} : { status: { conditions } }) },
      told,
      progress,
      now,
    );
  const rows = (conditions: readonly Condition[]) =>
    conditions.map(({ type, status, reason }) => `${type}=${status}/${reason}`);

  test.each<[Progress, string[]]>([
    ['idle', ['Ready=False/Why']],
    ['stalled', ['Ready=False/Why', 'Stalled=True/Why']],
    ['reconciling', ['Ready=False/Why', 'Reconciling=True/Progressing']],
  ])('where it is %s', (progress, expected) => {
    const { observedGeneration, conditions } = statusOf(progress);
    expect(observedGeneration).toBe(3);
    expect(rows(conditions)).toEqual(expected);
    for (const one of conditions)
      expect(one).toMatchObject({
        message: 'because',
        observedGeneration: 3,
        lastTransitionTime: '2026-11-01T10:00:00Z',
      });
    // Whatever it was before.
    for (const before of ['idle', 'stalled', 'reconciling'] as const)
      expect(rows(statusOf(progress, statusOf(before).conditions).conditions)).toEqual(expected);
  });

  test('says no more than kube-apiserver takes', () => {
    const long = { ...told, message: 'x'.repeat(40_000) };
    for (const progress of ['stalled', 'reconciling'] as const)
      for (const { message } of readyStatus({ metadata: {} }, long, progress, now).conditions)
        expect([message.length, message.slice(-2)]).toEqual([32_768, 'x…']);
  });

  test('is ready where it is', () => {
    const { observedGeneration, conditions } = readyStatus(
      { metadata: {} },
      { ...told, isReady: true },
      'idle',
      now,
    );
    expect([observedGeneration, rows(conditions)]).toEqual([0, ['Ready=True/Why']]);
  });
});

describe('the minute in which a missing object may still be made', () => {
  test('begins when Ready turns False, and ends', () => {
    expect(applyOrderLeftMs(ready('False'), now)).toBe(60_000);
    expect(applyOrderLeftMs(ready('False'), after(59_999))).toBe(1);
    expect(applyOrderLeftMs(ready('False'), after(60_000))).toBeUndefined();
  });

  test.each([[undefined], [ready('True')], [ready('Unknown')]])('begins now with %j', (conditions) => {
    expect(applyOrderLeftMs(conditions, after(3_600_000))).toBe(60_000);
  });
});
