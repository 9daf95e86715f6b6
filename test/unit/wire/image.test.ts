import { describe, expect, test } from 'vitest';
import { diskWaitsForPerson } from '../../../src/api/reasons.ts';
import { imageItem } from '../../../src/wire/image.ts';
import { condition } from '../../support/api.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const row = (reason: string, message: string) =>
  imageItem({
    metadata: storedMeta({ name: 'debian', namespace: 'ns', generation: 1 }),
    spec: { source: { remote: { reference: 'r.example.com/debian:12' } } },
    status: {
      observedGeneration: 1,
      conditions: [
        condition('Ready', 'False', reason, message),
        ...(diskWaitsForPerson.has(reason) ? [condition('Stalled', 'True', reason, message)] : []),
      ],
    },
  });

describe('the row of an image that is not ready', () => {
  test('is Failed with what the registry said where that refused', () => {
    expect(row('RegistryDenied', 'denied by r.example.com')).toMatchObject({
      state: 'Failed',
      errorMessage: 'denied by r.example.com',
    });
  });

  test.each(['RegistryUnreachable', 'WorkerFailed', 'WorkerRefused', 'RunnerUnreachable'])(
    'is Updating with the trouble where it is tried again after %s',
    (reason) => {
      expect(row(reason, 'no answer')).toMatchObject({ state: 'Updating', errorMessage: 'no answer' });
    },
  );

  test.each(['Working', 'Pending', 'SourceNotReady', 'AwaitingUpload'])(
    'has no trouble to tell with %s',
    (reason) => {
      expect(row(reason, 'in the middle')).toMatchObject({ state: 'Updating' });
      expect(row(reason, 'in the middle')).not.toHaveProperty('errorMessage');
    },
  );
});
