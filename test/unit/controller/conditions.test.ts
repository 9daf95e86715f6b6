import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  findCondition,
  formatMicroTime,
  formatTime,
  isTrue,
  removeCondition,
  setCondition,
} from '../../../src/controller/conditions.ts';
import type { Condition } from '../../../src/api/object.ts';

const earlier = '2026-11-01T00:00:00Z';
const now = new Date('2026-11-21T10:20:30.456Z');
const ready: Condition = {
  type: 'Ready',
  status: 'False',
  reason: 'Booting',
  message: 'boots',
  observedGeneration: 1,
  lastTransitionTime: earlier,
};

describe('setting a condition', () => {
  test('adds it with the time of now in whole seconds', () => {
    expect(
      setCondition(undefined, { type: 'Ready', status: 'True', reason: 'Up', message: '' }, now),
    ).toEqual([
      {
        type: 'Ready',
        status: 'True',
        reason: 'Up',
        message: '',
        lastTransitionTime: '2026-11-21T10:20:30Z',
      },
    ]);
  });

  test('moves the time when the status changes', () => {
    const [next] = setCondition([ready], { ...ready, status: 'True', reason: 'Up' }, now);
    expect(next?.lastTransitionTime).toBe(formatTime(now));
  });

  test('keeps the time when only reason, message or generation change', () => {
    const [next] = setCondition(
      [ready],
      { ...ready, reason: 'Pulling', message: 'pulls', observedGeneration: 2 },
      now,
    );
    expect(next).toEqual({ ...ready, reason: 'Pulling', message: 'pulls', observedGeneration: 2 });
  });

  test('shortens a message that kube-apiserver would refuse', () => {
    const [next] = setCondition([ready], { ...ready, message: 'x'.repeat(40_000) }, now);
    expect(next?.message).toMatch(/^x{32767}…$/);
    const [same] = setCondition([ready], { ...ready, message: 'x'.repeat(32_768) }, now);
    expect(same?.message).toHaveLength(32_768);
  });

  test('gives the same array back when nothing changes', () => {
    const conditions = [ready];
    const { lastTransitionTime: _time, ...decided } = ready;
    expect(setCondition(conditions, decided, now)).toBe(conditions);
  });

  test('is done by doing it once, keeps the others and their order', () => {
    const decided = fc.record({
      type: fc.constantFrom('Ready', 'Scheduled', 'Booted'),
      status: fc.constantFrom('True', 'False', 'Unknown'),
      reason: fc.constantFrom('A', 'B'),
      message: fc.constantFrom('', 'text'),
      observedGeneration: fc.nat(3),
    });
    fc.assert(
      fc.property(fc.array(decided), decided, (before, last) => {
        let conditions: Condition[] = [];
        before.forEach((each, index) => {
          conditions = setCondition(conditions, each, new Date(index * 1000));
        });
        const once = setCondition(conditions, last, now);
        expect(setCondition(once, last, new Date(0))).toBe(once);
        const types = once.map(({ type }) => type);
        expect(new Set(types).size).toBe(types.length);
        expect(types.slice(0, conditions.length)).toEqual(conditions.map(({ type }) => type));
        expect(findCondition(once, last.type)).toMatchObject(last);
        for (const other of conditions.filter(({ type }) => type !== last.type))
          expect(once).toContain(other);
      }),
    );
  });
});

test('a condition that is not there is not true, and can be taken out without effect', () => {
  expect(isTrue([ready], 'Ready')).toBe(false);
  expect(isTrue(undefined, 'Ready')).toBe(false);
  expect(isTrue([{ ...ready, status: 'True' }], 'Ready')).toBe(true);
  const conditions = [ready];
  expect(removeCondition(conditions, 'Other')).toBe(conditions);
  expect(removeCondition(conditions, 'Ready')).toEqual([]);
});

test('MicroTime has six digits', () => {
  expect(formatMicroTime(now)).toBe('2026-11-21T10:20:30.456000Z');
});
