import { describe, expect, test } from 'vitest';
import type { Image } from '../../../src/api/image.ts';
import type { EffectiveSettings, Vm } from '../../../src/api/vm.ts';
import { imageRefusal, unusableImage } from '../../../src/usecases/imagerefusal.ts';
import { condition } from '../../support/api.ts';

const image = `r.example.com/team/debian@sha256:${'a'.repeat(64)}`;
const iso = 'r.example.com/team/install:1';
const runner = 'r.example.com/svc3-runner:3';

function vmThatSays(type: string, reason: string, message: string): Vm {
  return {
    metadata: { name: 'vm', namespace: 'ns' },
    spec: { image: 'r.example.com/team/debian:12', iso },
    status: {
      effective: { image, iso } as EffectiveSettings,
      conditions: [condition(type, 'False', reason, message)],
    },
  } as Vm;
}

const pulling = (reference: string, words: string) =>
  `Back-off pulling image "${reference}": ErrImagePull: failed to pull and unpack image "${reference}": ${words}`;

describe('the image of a VM', () => {
  test.each([
    ['a registry does not know it', 'Scheduled', 'ImageNotFound', 'image x does not exist', 'image'],
    ['a registry refuses it', 'Scheduled', 'ImagePullDenied', 'image x may not be pulled', 'image'],
    ['the ISO of the name is not there', 'Scheduled', 'ImageNotFound', 'ISO install does not exist', 'iso'],
    [
      'the registry does not know the ISO',
      'Scheduled',
      'ImageNotFound',
      `image ${iso} does not exist`,
      'iso',
    ],
    [
      'the registry does not know the ISO of a VMConfig',
      'Scheduled',
      'ImageNotFound',
      'ISO r.example.com/cd was not found',
      'iso',
    ],
    ['the kubelet quotes 404', 'Prepared', 'ImagePullFailed', pulling(image, `${image}: not found`), 'image'],
    [
      'the kubelet quotes 401',
      'Prepared',
      'ImagePullFailed',
      pulling(iso, 'unexpected status: 401 Unauthorized'),
      'iso',
    ],
  ])('cannot be pulled where %s', (_what, type, reason, message, field) => {
    expect(imageRefusal(vmThatSays(type, reason, message))).toEqual({ field, message });
  });

  test.each([
    [
      'a name does not resolve',
      'Prepared',
      'ImagePullFailed',
      pulling(image, 'dial tcp: lookup r.example.com: no such host'),
    ],
    [
      'the image of the runner is missing',
      'Prepared',
      'ImagePullFailed',
      pulling(runner, `${runner}: not found`),
    ],
    [
      'a blob is not there yet',
      'Prepared',
      'ImagePullFailed',
      pulling(image, 'blob sha256:b: not found: EOF'),
    ],
    ['the Image is still being made', 'Scheduled', 'ImageNotReady', 'Image debian is not ready'],
    ['no node fits', 'Scheduled', 'Unschedulable', '0/1 nodes'],
  ])('may still come where %s', (_what, type, reason, message) => {
    expect(imageRefusal(vmThatSays(type, reason, message))).toBeUndefined();
  });
});

describe('an Image of the store', () => {
  const withConditions = (...conditions: ReturnType<typeof condition>[]): Image =>
    ({ metadata: { name: 'debian' }, spec: {}, status: { conditions } }) as unknown as Image;

  test('is refused with its reason where it gets nothing until somebody acts', () => {
    const ready = condition('Ready', 'False', 'DiskRefused', 'no disk');
    const stalled = withConditions(ready, condition('Stalled', 'True', 'DiskRefused', 'no disk'));
    expect(unusableImage(stalled)?.message).toContain('Image debian is not usable: no disk');
    const reason = 'RegistryDenied';
    const denied = withConditions(
      condition('Ready', 'False', reason, 'denied'),
      condition('Stalled', 'True', reason, 'denied'),
    );
    expect(unusableImage(denied)?.message).toContain('denied');
  });

  test('is waited for where it is being made, and is usable with a commit that failed', () => {
    expect(unusableImage(withConditions(condition('Ready', 'False', 'Working')))).toBeUndefined();
    const awaited = condition('Ready', 'False', 'AwaitingUpload');
    const waits = condition('Stalled', 'True', 'AwaitingUpload');
    expect(unusableImage(withConditions(awaited, waits))).toBeUndefined();
    const stalled = condition('Stalled', 'True', 'SourceDeleted', 'gone');
    expect(unusableImage(withConditions(condition('Ready', 'True', 'Stored'), stalled))).toBeUndefined();
  });
});
