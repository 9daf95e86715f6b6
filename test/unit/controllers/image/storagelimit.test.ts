import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import { storageLimitOf } from '../../../../src/controllers/image/storagelimit.ts';

const Gi = 2 ** 30;
const limited = (limit: string) => ({ name: 'c', resources: { limits: { 'ephemeral-storage': limit } } });
const free = {
  name: 'c',
  resources: { requests: { 'ephemeral-storage': '1Gi' }, limits: { memory: '9Gi' } },
};
const sidecar = (limit: string) => ({ ...limited(limit), restartPolicy: 'Always' });

describe('the limit of ephemeral storage that the kubelet holds a pod to', () => {
  test.each([
    ['is none, where no container has one', { containers: [free] }, undefined],
    ['is that of its container', { containers: [limited('40Gi')] }, 40],
    ['is what those come to that have one', { containers: [limited('40Gi'), free, limited('2Gi')] }, 42],
    [
      'counts what runs on beside them',
      { containers: [limited('40Gi')], initContainers: [sidecar('2Gi')] },
      42,
    ],
    [
      'is that of the start, where it is more',
      { containers: [limited('4Gi')], initContainers: [sidecar('2Gi'), limited('9Gi')] },
      11,
    ],
    ['is that of the start alone', { containers: [free], initContainers: [limited('9Gi')] }, 9],
    [
      'has the overhead more',
      { containers: [limited('40Gi')], overhead: { 'ephemeral-storage': '1Gi' } },
      41,
    ],
    [
      'is none, where nothing but overhead is said',
      { containers: [free], overhead: { 'ephemeral-storage': '1Gi' } },
      undefined,
    ],
    ['is none, where it is more than a number can say', { containers: [limited('100E')] }, undefined],
  ])('%s', (_what, spec, limit) => {
    const expected = limit === undefined ? undefined : limit * Gi;
    expect(storageLimitOf({ spec } as unknown as Pod)).toBe(expected);
  });
});
