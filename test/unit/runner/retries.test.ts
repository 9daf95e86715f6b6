import { describe, expect, test } from 'vitest';
import { RunnerFailure } from '../../../src/runner/failure.ts';
import { createRetries } from '../../../src/runner/retries.ts';

const crash = new RunnerFailure('QemuCrashed', 'QEMU was killed');
const busy = new RunnerFailure('GpuBusy', 'a GPU is in use');
const missing = new RunnerFailure('DiskMissing', 'no disk');

describe('after a crash QEMU is started again', () => {
  test('up to the limit, later every time', () => {
    const retries = createRetries({ policy: 'OnFailure', limit: 3 }, () => 0);
    expect([1, 2, 3, 4].map(() => retries.after(crash, true))).toEqual([1000, 2000, 4000, undefined]);
    expect(retries.crashes).toBe(4);
  });

  test('from the beginning after ten quiet minutes', () => {
    let now = 0;
    const retries = createRetries({ policy: 'OnFailure', limit: 1 }, () => now);
    expect(retries.after(crash, true)).toBe(1000);
    now = 600_000;
    expect(retries.after(crash, true)).toBeUndefined();
    now = 1_200_001;
    expect(retries.after(crash, true)).toBe(1000);
    expect(retries.crashes).toBe(1);
  });

  test('from the beginning when somebody starts it', () => {
    const retries = createRetries({ policy: 'OnFailure', limit: 1 }, () => 0);
    expect([1, 2].map(() => retries.after(crash, true))).toEqual([1000, undefined]);
    retries.renew();
    expect(retries.crashes).toBe(0);
    expect(retries.after(crash, true)).toBe(1000);
  });

  test('as often as there is left of a count of before, of which the last crash was just now', () => {
    let now = 1_000;
    const retries = createRetries({ policy: 'OnFailure', limit: 2 }, () => now);
    retries.resume(1);
    expect(retries.crashes).toBe(1);
    now = 601_000;
    expect(retries.after(crash, true)).toBe(2000);
    retries.resume(2);
    now = 1_201_001;
    expect(retries.after(crash, true)).toBe(1000);
    retries.resume(0);
    expect([retries.after(crash, true), retries.crashes]).toEqual([1000, 1]);
  });

  test('never where the policy says so', () => {
    expect(createRetries({ policy: 'Never', limit: 5 }, () => 0).after(crash, true)).toBeUndefined();
  });
});

describe('what keeps QEMU from starting', () => {
  test('is tried for ever, whatever the policy, at most a minute apart', () => {
    const retries = createRetries({ policy: 'Never', limit: 0 }, () => 0);
    const pauses = Array.from({ length: 20 }, () => retries.after(busy, false));
    expect(pauses.slice(0, 3)).toEqual([1000, 2000, 4000]);
    expect(pauses.at(-1)).toBe(60_000);
    expect(retries.crashes).toBe(0);
    retries.started();
    expect(retries.after(busy, false)).toBe(1000);
  });

  test('is final where this pod can never heal it', () => {
    expect(createRetries({ policy: 'OnFailure', limit: 5 }, () => 0).after(missing, false)).toBeUndefined();
  });
});
