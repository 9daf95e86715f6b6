import { describe, expect, test } from 'vitest';
import type { RunnerState } from '../../../../src/api/runner.ts';
import type { EffectiveSettings, VmSpec, VmStatus } from '../../../../src/api/vm.ts';
import {
  decideKept,
  dependsOnImages,
  holdFor,
  type Kept,
  type KeptFacts,
  needsNewPod,
} from '../../../../src/controllers/vm/kept.ts';
import type { RunnerObservation } from '../../../../src/controllers/vm/runner/runners.ts';
import { aVm, effective, runnerState } from './builders.ts';

const persistent: EffectiveSettings = { ...effective, disk: { storage: 'Persistent' } };
const suspends: EffectiveSettings = { ...persistent, onEviction: 'Suspend' };

interface Given {
  readonly settings?: EffectiveSettings;
  readonly waiting?: readonly string[];
  readonly spec?: Partial<VmSpec>;
  readonly status?: VmStatus;
  /** What the runner says of its guest; undefined: nothing. By default the guest is off and is to run. */
  readonly state?: Partial<RunnerState> | undefined;
  readonly verb?: RunnerObservation['verb'];
  readonly dataHold?: string;
  readonly revertHold?: KeptFacts['revertHold'];
}

function facts(given: Given): KeptFacts {
  const {
    settings = persistent,
    waiting = ['cpu', 'tag'],
    spec = {},
    status = {},
    verb,
    dataHold,
    revertHold,
  } = given;
  const state = 'state' in given ? given.state : { powerState: 'Stopped' as const };
  return {
    vm: aVm({ spec, status: { effective: settings, ...status } }),
    effective: settings,
    waiting,
    runner: {
      state: state === undefined ? undefined : runnerState(state),
      podReady: false,
      fingerprint: undefined,
      verb,
      isPending: false,
      error: undefined,
    },
    revertHold,
    dataHold,
  };
}

const newPod: Kept = {
  kind: 'newPod',
  message: 'the guest is started in another pod, with another cpu, tag',
};
const stay = (startsAfter?: string): Kept => ({ kind: 'stay', startsAfter, waitsForSave: false });
const afterSave: Kept = {
  kind: 'stay',
  startsAfter: 'an image is being made of its disk: the guest is started after that',
  waitsForSave: true,
};
const release: Kept = { kind: 'release' };

const restarted = { spec: { restartRequest: 'a' }, state: { powerState: 'Running' } } as const;
const asleep = {
  spec: { powerState: 'Suspended' },
  status: { powerState: 'Suspended', suspendedTo: 'Disk' },
  state: { powerState: 'Suspended', suspendKind: 'Disk' },
} as const;

describe('the pod of', () => {
  test.each<[what: string, given: Given, kept: Kept, whileSaved: Kept]>([
    ['a guest that is started with what its pod has not stays', { waiting: [] }, stay(), stay()],
    ['a guest that is started with what needs another goes', {}, newPod, afterSave],
    ['a guest with what it can have there stays', { waiting: ['display', 'metadata'] }, stay(), stay()],
    ['a guest whose disk is in it stays', { settings: effective }, stay(), stay()],
    ['a guest that runs and nobody restarts stays', { state: { powerState: 'Running' } }, stay(), stay()],
    [
      'a guest whose disk is saved before a revert stays',
      { spec: { revertRequest: 'b' }, revertHold: { message: 'wait', needsGuest: false } },
      stay(),
      stay(),
    ],
    [
      'a guest whose memory is saved before that, once it runs, goes',
      { spec: { revertRequest: 'b' }, revertHold: { message: 'wait', needsGuest: true } },
      newPod,
      afterSave,
    ],
    ['a guest that is to be off stays', { spec: { powerState: 'Stopped' } }, stay(), stay()],
    ['a guest that runs and is restarted goes', restarted, newPod, afterSave],
    [
      'a guest that its end would suspend stays until it is shut down',
      { ...restarted, settings: suspends },
      stay(),
      stay(),
    ],
    ['a guest that is shut down so goes', { settings: suspends }, newPod, afterSave],
    ['a guest whose runner does not answer stays', { state: undefined }, stay(), stay()],
    ['a guest whose runner is at something stays', { verb: 'start' }, stay(), stay()],
    [
      'a guest whose data disks have no room yet stays, and the start waits for that',
      { dataHold: 'no room' },
      stay('no room'),
      afterSave,
    ],
    [
      'a guest that is to be shut down first, too',
      { ...restarted, settings: suspends, dataHold: 'no room' },
      stay('no room'),
      stay('no room'),
    ],
    [
      'a guest that nobody starts waits for nothing',
      { state: { powerState: 'Running' }, dataHold: 'no room' },
      stay(),
      stay(),
    ],
    ['a VM that is suspended on its disk goes', asleep, release, stay()],
    ['one whose disk waits for nothing, too', { ...asleep, waiting: [] }, release, stay()],
    [
      'one whose status does not say so yet stays',
      { ...asleep, status: { powerState: 'Running' } },
      stay(),
      stay(),
    ],
    [
      'one whose memory is in it stays',
      { ...asleep, state: { powerState: 'Suspended', suspendKind: 'Memory' } },
      stay(),
      stay(),
    ],
    ['one whose guest runs again stays', { ...asleep, state: { powerState: 'Running' } }, stay(), stay()],
    ['one whose runner is at something stays', { ...asleep, verb: 'resume' }, stay(), stay()],
  ])('%s', (_what, given, kept, whileSaved) => {
    expect(decideKept(facts(given), false)).toEqual(kept);
    expect(decideKept(facts(given), true)).toEqual(whileSaved);
    // Images are asked for just where they make a difference.
    const differs = JSON.stringify(kept) !== JSON.stringify(whileSaved);
    expect(dependsOnImages(facts(given))).toBe(differs);
  });

  test('a VM without a runner to ask stays', () => {
    const unasked = { ...facts({}), runner: undefined };
    expect([decideKept(unasked, false), dependsOnImages(unasked)]).toEqual([stay(), false]);
  });
});

test.each<[EffectiveSettings, readonly string[] | undefined, boolean]>([
  [persistent, ['cpu'], true],
  [persistent, ['display', 'tag'], true],
  [persistent, ['display'], false],
  [persistent, [], false],
  [persistent, undefined, false],
  [effective, ['cpu'], false],
  [effective, ['tag'], false],
])('%o with %j needs another pod for its next start: %s', (settings, waiting, expected) => {
  const resolved = { effective: settings, ...(waiting === undefined ? {} : { waiting }) };
  expect(needsNewPod(resolved)).toBe(expected);
});

test.each([
  ['nothing grows', {}, undefined],
  [
    'a volume grows',
    { againMs: 2_000 },
    'the volumes of its data disks grow: the guest is started after that',
  ],
  ['a volume takes long', { againMs: 60_000, delay: 'the volume has 1Gi' }, undefined],
  ['a claim may not grow', { againMs: 60_000, refusal: 'exceeded quota' }, 'exceeded quota'],
])('what another pod waits for where %s', (_what, room, expected) => {
  expect(holdFor(room)).toBe(expected);
});
