import { describe, expect, test } from 'vitest';
import type { ImageStatus } from '../../../../src/api/image.ts';
import { modifiedOf, stateAttributes } from '../../../../src/http/legacy/disks.ts';
import { anImage, condition, digest } from '../../controllers/image/builders.ts';

const disk = (status?: ImageStatus) =>
  anImage({ upload: {} }, status, { creationTimestamp: '2026-01-01T00:00:00Z' });
const at = (type: string, status: 'True' | 'False' | 'Unknown', lastTransitionTime: string) => ({
  ...condition(type, status, 'Stored'),
  lastTransitionTime,
});

describe('a disk of a list of 2.4.x was modified', () => {
  test.each<[what: string, status: ImageStatus | undefined, modified: string]>([
    ['when it was made, as long as nothing is in it', undefined, '2026-01-01T00:00:00Z'],
    [
      'then too where its making has failed since',
      { conditions: [at('Ready', 'False', '2026-01-02T00:00:00Z')] },
      '2026-01-01T00:00:00Z',
    ],
    [
      'when it got into the store',
      { conditions: [at('Ready', 'True', '2026-01-02T00:00:00Z')] },
      '2026-01-02T00:00:00Z',
    ],
    [
      'by its last commit',
      {
        conditions: [
          at('Ready', 'True', '2026-01-02T00:00:00Z'),
          at('Committed', 'True', '2026-01-03T00:00:00Z'),
        ],
      },
      '2026-01-03T00:00:00Z',
    ],
    [
      'not by a commit that failed',
      {
        conditions: [
          at('Ready', 'True', '2026-01-02T00:00:00Z'),
          at('Committed', 'False', '2026-01-03T00:00:00Z'),
        ],
      },
      '2026-01-02T00:00:00Z',
    ],
  ])('%s', (_what, status, modified) => {
    expect(modifiedOf(disk(status))).toBe(modified);
  });
});

describe('a list of 2.4.x tells whether a disk', () => {
  const ready = condition('Ready', 'True', 'Stored');
  test.each<[what: string, status: ImageStatus | undefined, attributes: object]>([
    ['is still being made', undefined, { state: 'Updating' }],
    ['is there', { digest, observedGeneration: 1, conditions: [ready] }, { state: 'Ready' }],
    [
      'has failed, and why',
      { observedGeneration: 1, conditions: [condition('Stalled', 'True', 'DiskRefused')] },
      { state: 'Failed', error_message: 'DiskRefused' },
    ],
    [
      'is there in the version before, and why its commit failed',
      {
        digest,
        observedGeneration: 1,
        conditions: [ready, condition('Committed', 'False', 'CommitRefused')],
      },
      { state: 'Ready', error_message: 'CommitRefused' },
    ],
  ])('%s', (_what, status, attributes) => {
    expect(stateAttributes(disk(status))).toEqual(attributes);
  });
});
