import { describe, expect, test } from 'vitest';
import type { Image } from '../../../../src/api/image.ts';
import type { ObservedPowerState, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import {
  awaitedImages,
  isBeingSaved,
  promisedImages,
  unsavedImages,
} from '../../../../src/controllers/image/saves.ts';
import { aVm, effective } from '../vm/builders.ts';
import { anImage, condition, digest } from './builders.ts';

const deletionTimestamp = '2026-01-01T00:00:10Z';
const vm = aVm({
  metadata: { deletionTimestamp },
  status: {
    effective: { ...effective, imageName: 'disk' },
    powerState: 'Running',
    runner: { podUid: 'now', address: '10.0.0.1' },
  },
});
const ofVm: Image['spec']['source'] = { vm: { name: 'web', mode: 'Save' } };
const before = { creationTimestamp: '2026-01-01T00:00:00Z' };

function committing(status: Image['status'], target = 'disk'): Image {
  const image = anImage({ blank: { size: '1Gi' } }, { digest, ...status }, { name: target, ...before });
  return { ...image, spec: { ...image.spec, commit: { vm: 'web', request: 'two' } } };
}

describe('a VM that is being deleted waits for', () => {
  test.each<[string, Image, boolean]>([
    ['a save', anImage(ofVm, undefined, before), true],
    ['a save that is under way', anImage(ofVm, { vmUid: 'vm-uid' }, before), true],
    ['a save in its pod', anImage(ofVm, { vmUid: 'vm-uid', vmPodUid: 'now' }, before), true],
    [
      'no save of a disk that went with its pod before',
      anImage(ofVm, { vmUid: 'vm-uid', vmPodUid: 'before' }, before),
      false,
    ],
    ['a save of the same second', anImage(ofVm, undefined, { creationTimestamp: deletionTimestamp }), true],
    [
      'no save that came later',
      anImage(ofVm, undefined, { creationTimestamp: '2026-01-01T00:00:11Z' }),
      false,
    ],
    ['no save that is done', anImage(ofVm, { digest }, before), false],
    ['no save of a VM of its name before it', anImage(ofVm, { vmUid: 'other' }, before), false],
    [
      'no save for which another VM of its name was meant',
      anImage(ofVm, undefined, { ...before, annotations: { 'svc3.dev/saved-vm': 'other' } }),
      false,
    ],
    [
      'a save for which it was meant',
      anImage(ofVm, undefined, { ...before, annotations: { 'svc3.dev/saved-vm': 'vm-uid' } }),
      true,
    ],
    ['no save of another VM', anImage({ vm: { name: 'x', mode: 'Save' } }, undefined, before), false],
    ['no image that is being deleted', anImage(ofVm, undefined, { ...before, deletionTimestamp }), false],
    [
      'no save that was refused',
      anImage(ofVm, { conditions: [condition('Stalled', 'True', 'DiskRefused')] }, before),
      false,
    ],
    [
      'no save where there is no store',
      anImage(ofVm, { conditions: [condition('Stalled', 'True', 'StoreMissing')] }, before),
      false,
    ],
    [
      'no save where there is no store, though it is known whose disk it was to be',
      anImage(
        ofVm,
        { vmUid: 'vm-uid', vmPodUid: 'now', conditions: [condition('Stalled', 'True', 'StoreMissing')] },
        before,
      ),
      false,
    ],
    [
      'a save whose registry is away',
      anImage(ofVm, { conditions: [condition('Ready', 'False', 'RegistryUnreachable')] }, before),
      true,
    ],
    ['a commit', committing({}), true],
    ['the next commit', committing({ commitRequest: 'one' }), true],
    [
      'a commit that took the place of that of another VM',
      committing({ vmUid: 'other', vmRequest: 'one' }),
      true,
    ],
    ['no commit of a VM of its name before it', committing({ vmUid: 'other', vmRequest: 'two' }), false],
    ['no commit that was answered', committing({ commitRequest: 'two' }), false],
    ['no commit of an image that it does not run from', committing({}, 'other'), false],
  ])('%s', (_, image, waits) => {
    expect(unsavedImages(vm, [image])).toEqual(waits ? [image.metadata.name] : []);
  });
});

describe('a VM that is being deleted in whose next pod nothing starts', () => {
  const lost = { effective, powerState: 'Stopped' } as const;
  const begun = anImage(ofVm, { vmUid: 'vm-uid', vmPodUid: 'before' }, before);
  const pod = (uid: string) => ({ metadata: { uid } });
  const waits = (status: VmStatus, image: Image, uid: string) =>
    unsavedImages(aVm({ metadata: { deletionTimestamp }, status }), [image], pod(uid)).length > 0;

  test('waits for no save of the disk that went with its pod before', () => {
    expect(waits(lost, begun, 'next')).toBe(false);
    expect(waits(lost, begun, 'before')).toBe(true);
  });

  test('waits for one of a disk that is on its claim, and for one that has not begun', () => {
    expect(
      waits({ ...lost, effective: { ...effective, disk: { storage: 'Persistent' } } }, begun, 'next'),
    ).toBe(true);
    expect(waits(lost, anImage(ofVm, undefined, before), 'next')).toBe(true);
  });
});

test.each<[string, Image, boolean]>([
  ['no save that has not begun', anImage(ofVm, undefined, before), false],
  [
    'a save that is under way',
    anImage(ofVm, { vmUid: 'vm-uid', conditions: [condition('Ready', 'Unknown', 'Working')] }, before),
    true,
  ],
  [
    'no save that waits for its registry',
    anImage(
      ofVm,
      { vmUid: 'vm-uid', conditions: [condition('Ready', 'False', 'RegistryUnreachable')] },
      before,
    ),
    false,
  ],
  [
    'no save of a VM of its name before it',
    anImage(ofVm, { vmUid: 'other', conditions: [condition('Ready', 'Unknown', 'Working')] }, before),
    false,
  ],
  [
    'a commit that is under way',
    committing({
      vmUid: 'vm-uid',
      conditions: [condition('Ready', 'True', 'Stored'), condition('Committed', 'Unknown', 'Working')],
    }),
    true,
  ],
  [
    'no commit that is answered',
    committing({
      vmUid: 'vm-uid',
      commitRequest: 'two',
      conditions: [condition('Committed', 'Unknown', 'Working')],
    }),
    false,
  ],
])('the pod of a VM that sleeps stays for %s', (_, image, stays) => {
  expect(isBeingSaved(vm, [image])).toBe(stays);
});

describe('the disk of a VM that is reverted is promised', () => {
  const lives = aVm({ status: vm.status ?? {} });
  const withoutStore = [condition('Stalled', 'True', 'StoreMissing')];

  test.each<[string, Image, boolean]>([
    ['to a save that nobody has begun', anImage(ofVm), true],
    ['to one of which no store knows', anImage(ofVm, { conditions: withoutStore }), true],
    ['to a commit', committing({}), true],
    ['to no save that is done', anImage(ofVm, { digest }), false],
    [
      'to no save of a disk that went with its pod before',
      anImage(ofVm, { vmUid: 'vm-uid', vmPodUid: 'before' }),
      false,
    ],
    ['to no image that is being deleted', anImage(ofVm, undefined, { deletionTimestamp }), false],
    [
      'to no save that was refused',
      anImage(ofVm, { conditions: [condition('Stalled', 'True', 'SourceDeleted')] }),
      false,
    ],
  ])('%s', (_, image, waits) => {
    expect(promisedImages(lives, [image])).toEqual(waits ? [image] : []);
  });

  test('and the revert waits for those that a store could take', () => {
    const [save, stalled] = [anImage(ofVm), anImage(ofVm, { conditions: withoutStore })];
    expect(awaitedImages(lives, [save, stalled, anImage(ofVm, { digest })])).toEqual([save]);
  });

  const warm: Image['spec']['source'] = { vm: { name: 'web', mode: 'SaveWithMemory' } };
  const waitsForGuest = { conditions: [condition('Ready', 'False', 'SourceNotReady')] };
  const copied = { vmUid: 'vm-uid', conditions: [condition('Ready', 'Unknown', 'Working')] };

  test.each<[string, Image, Partial<VmSpec>, ObservedPowerState, boolean]>([
    [
      'not for the memory of a guest that is off and stays so',
      anImage(warm),
      { powerState: 'Stopped' },
      'Stopped',
      false,
    ],
    [
      'not for that of one that has failed',
      anImage(warm, waitsForGuest),
      { powerState: 'Stopped' },
      'Failed',
      false,
    ],
    ['for that of one that is being stopped', anImage(warm), { powerState: 'Stopped' }, 'Running', true],
    ['for that of one that is started for it', anImage(warm, waitsForGuest), {}, 'Stopped', true],
    [
      'for what was copied before the guest was stopped',
      anImage(warm, copied),
      { powerState: 'Stopped' },
      'Stopped',
      true,
    ],
    ['for the disk of one that is off', anImage(ofVm), { powerState: 'Stopped' }, 'Stopped', true],
  ])('and the revert waits %s', (_, image, spec, powerState, waits) => {
    const one = aVm({ spec, status: { ...lives.status, powerState } });
    expect(awaitedImages(one, [image])).toEqual(waits ? [image] : []);
  });
});
