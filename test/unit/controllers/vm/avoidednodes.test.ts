import { beforeEach, describe, expect, test } from 'vitest';
import { AvoidedNodes } from '../../../../src/controllers/vm/avoidednodes.ts';

let now = 1_000;
let avoided: AvoidedNodes;

beforeEach(() => {
  avoided = new AvoidedNodes(() => now);
});

describe('a node that turned a pod away', () => {
  test('is avoided for two minutes, and only by the object whose pod that was', () => {
    avoided.add('vm', 'a');
    expect([...avoided.of('vm'), ...avoided.of('other')]).toEqual(['a']);
    now += 119_999;
    expect([...avoided.of('vm')]).toEqual(['a']);
    now += 1;
    expect([...avoided.of('vm')]).toEqual([]);
  });

  test('is avoided beside others, each for its own time', () => {
    avoided.add('vm', 'a');
    now += 60_000;
    avoided.add('vm', 'b');
    expect([...avoided.of('vm')]).toEqual(['a', 'b']);
    now += 60_000;
    expect([...avoided.of('vm')]).toEqual(['b']);
  });

  test('is avoided for two minutes more when it does so again', () => {
    avoided.add('vm', 'a');
    now += 119_000;
    avoided.add('vm', 'a');
    now += 119_000;
    expect([...avoided.of('vm')]).toEqual(['a']);
  });

  test('for good is avoided until all are forgotten, also where it does so again', () => {
    avoided.add('vm', 'a', true);
    avoided.add('vm', 'a');
    avoided.add('vm', 'b');
    expect([...avoided.lastingOf('vm')]).toEqual(['a']);
    now += 1e12;
    expect([...avoided.of('vm')]).toEqual(['a']);
    avoided.forget('vm');
    expect([...avoided.of('vm'), ...avoided.lastingOf('vm')]).toEqual([]);
  });

  test('for a while may be avoided for good from then on', () => {
    avoided.add('vm', 'a');
    expect([...avoided.lastingOf('vm')]).toEqual([]);
    avoided.add('vm', 'a', true);
    expect([...avoided.lastingOf('vm')]).toEqual(['a']);
  });
});
