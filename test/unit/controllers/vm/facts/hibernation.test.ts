import { describe, expect, test } from 'vitest';
import type { Node } from '../../../../../src/api/core.ts';
import { maxFlagsLength } from '../../../../../src/api/hostcpu.ts';
import { conditionTypes } from '../../../../../src/api/reasons.ts';
import type { EffectiveSettings, VmSpec, VmStatus } from '../../../../../src/api/vm.ts';
import {
  isAsleep,
  isSuspendedInMemory,
  keepsSettings,
  mayBeOnClaim,
  mayGoOn,
  memoryHostOf,
  suspendSeconds,
  suspendsTo,
} from '../../../../../src/controllers/vm/facts/hibernation.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';
import { aCondition, aVm, effective } from '../builders.ts';

const onClaim: EffectiveSettings = { ...effective, disk: { storage: 'Persistent', size: '1Gi' } };
const evicted: EffectiveSettings = { ...onClaim, onEviction: 'Suspend' };
const withGpu: EffectiveSettings = { ...evicted, gpuPassthrough: 'Enabled' };
const Mi = 2 ** 20;

test.each<[Partial<VmSpec>, VmStatus | undefined, string]>([
  [{}, undefined, 'Memory'],
  [{ config: 'c' }, { effective: { ...effective, suspendTo: 'Disk' } }, 'Disk'],
  [{}, { effective: { ...effective, suspendTo: 'Disk' } }, 'Memory'],
  [{ suspendTo: 'Memory' }, { effective: { ...effective, suspendTo: 'Disk' } }, 'Memory'],
  [{ suspendTo: 'Disk' }, undefined, 'Disk'],
])('with spec %j and status %j the memory goes to %s', (spec, status, expected) => {
  expect(suspendsTo(aVm({ spec, ...(status === undefined ? {} : { status }) }))).toBe(expected);
});

test.each<[string, EffectiveSettings, number, number | undefined]>([
  ['takes ten seconds and one for each 100 MiB', evicted, 200 * Mi, 12],
  ['takes a second more for a byte more', evicted, 200 * Mi + 1, 13],
  ['takes none where the guest is shut down', onClaim, 200 * Mi, undefined],
  ['takes none where there is no claim', { ...effective, onEviction: 'Suspend' }, 200 * Mi, undefined],
  ['takes none with a GPU', withGpu, 200 * Mi, undefined],
])('to write the memory %s', (_sentence, settings, bytes, seconds) => {
  expect(suspendSeconds(settings, bytes)).toBe(seconds);
});

describe('a memory on the claim', () => {
  const asleep: VmStatus = { suspendedTo: 'Disk' };

  test.each<[string, EffectiveSettings, Partial<VmSpec>, VmStatus, boolean]>([
    ['may be there after an eviction that suspends', evicted, {}, {}, true],
    ['may be there where the VM was suspended to it', onClaim, {}, asleep, true],
    ['is not there else', onClaim, {}, {}, false],
    ['is not there where the VM was suspended in memory', onClaim, {}, { suspendedTo: 'Memory' }, false],
    ['is nothing to a VM that is to be stopped', evicted, { powerState: 'Stopped' }, asleep, false],
    ['is not there without a claim', effective, {}, asleep, false],
    ['is not there of a guest with a GPU', withGpu, {}, asleep, false],
  ])('%s', (_sentence, settings, spec, status, expected) => {
    expect(mayBeOnClaim(aVm({ spec, status }), settings)).toBe(expected);
  });

  test('of a VM that is asleep may be found by its next pod, and of one that eviction suspends', () => {
    expect(mayGoOn(aVm({ status: asleep }), effective)).toBe(true);
    expect(mayGoOn(aVm(), evicted)).toBe(true);
    expect(mayGoOn(aVm(), effective)).toBe(false);
  });
});

describe('what the guest runs on', () => {
  const cpu = { model: 'Some CPU', flags: ['avx', 'sse'] };
  const nodeWith = (flags: readonly string[]): Node => ({
    metadata: storedMeta({
      name: 'n1',
      annotations: { 'svc3.dev/hardware': JSON.stringify({ version: 1, cpu: { ...cpu, flags } }) },
    }),
  });
  const node = nodeWith(cpu.flags);
  const before = { accelerator: 'kvm', cpuModel: 'Old CPU', cpuFlags: 'sse' } as const;
  const toDisk = aVm({ spec: { suspendTo: 'Disk' }, status: { memoryHost: before } });
  const now = { accelerator: 'kvm', cpuModel: 'Some CPU', cpuFlags: 'avx sse' };

  test('is remembered where its memory may go to its claim', () => {
    const on = { accelerator: 'kvm', node } as const;
    expect(memoryHostOf(toDisk, onClaim, on)).toEqual(now);
    expect(memoryHostOf(aVm(), evicted, on)).toEqual(now);
    expect(memoryHostOf(aVm(), onClaim, on)).toBeUndefined();
    expect(memoryHostOf(toDisk, effective, on)).toBeUndefined();
    expect(memoryHostOf(toDisk, withGpu, on)).toBeUndefined();
  });

  test('is no CPU where it is emulated', () => {
    expect(memoryHostOf(toDisk, onClaim, { accelerator: 'tcg', node })).toEqual({ accelerator: 'tcg' });
  });

  test('stays as it was where nothing is known of the node, or of the accelerator', () => {
    expect(memoryHostOf(toDisk, onClaim, { accelerator: 'kvm', node: undefined })).toEqual(before);
    expect(memoryHostOf(toDisk, onClaim, { accelerator: undefined, node })).toEqual(before);
  });

  test('stays as it was while the memory is on the claim', () => {
    const asleep = aVm({
      spec: { suspendTo: 'Disk' },
      status: { memoryHost: before, suspendedTo: 'Disk' },
    });
    expect(memoryHostOf(asleep, onClaim, { accelerator: 'kvm', node })).toEqual(before);
  });

  test('is told without features that are too many to keep', () => {
    // Sixty names with blanks between them.
    const flags = ['g'.repeat(50), ...Array.from({ length: 59 }, () => 'f'.repeat(49))];
    expect(flags.join(' ')).toHaveLength(maxFlagsLength);
    const of = (all: readonly string[]) =>
      memoryHostOf(toDisk, onClaim, { accelerator: 'kvm', node: nodeWith(all) });
    expect(of(flags)).toEqual({ ...now, cpuFlags: flags.join(' ') });
    const [first, ...rest] = flags;
    expect(of([`${first}g`, ...rest])).toEqual({ accelerator: 'kvm', cpuModel: 'Some CPU' });
  });
});

test.each<[VmStatus | undefined, boolean]>([
  [undefined, false],
  [{ powerState: 'Suspended' }, true],
  [{ powerState: 'Suspended', suspendedTo: 'Memory' }, true],
  [{ powerState: 'Suspended', suspendedTo: 'Disk' }, false],
  [{ powerState: 'Running' }, false],
])('with status %j the guest is paused in its pod: %s', (status, expected) => {
  expect(isSuspendedInMemory(status)).toBe(expected);
});

describe('a VM whose memory is on its claim', () => {
  const spec: Partial<VmSpec> = { powerState: 'Suspended' };
  const status: VmStatus = { powerState: 'Suspended', suspendedTo: 'Disk' };

  test.each<[string, Partial<VmSpec>, VmStatus, boolean]>([
    ['needs no pod', {}, {}, true],
    ['needs one to go on', { powerState: 'Running' }, {}, false],
    ['needs one while the memory is not there yet', {}, { powerState: 'Running' }, false],
    ['needs one where the memory is in its pod', {}, { suspendedTo: 'Memory' }, false],
    ['needs one for a revert', { revertRequest: 'b' }, {}, false],
    ['needs one for another revert', { revertRequest: 'b' }, { revertRequest: 'a' }, false],
    ['needs none for a revert that is done', { revertRequest: 'b' }, { revertRequest: 'b' }, true],
  ])('%s', (_sentence, moreSpec, moreStatus, expected) => {
    expect(isAsleep(aVm({ spec: { ...spec, ...moreSpec }, status: { ...status, ...moreStatus } }))).toBe(
      expected,
    );
  });
});

describe('the settings that were in force', () => {
  const restart = [aCondition(conditionTypes.restartRequired)];
  const suspending: VmStatus = { effective: evicted, powerState: 'Running', conditions: restart };
  const memoryHost = { accelerator: 'tcg' } as const;
  const ready = (reason: string) => [...restart, aCondition(conditionTypes.ready, { reason })];

  test.each<[string, VmStatus, boolean]>([
    ['are kept while the memory is on the claim', { suspendedTo: 'Disk' }, true],
    ['are kept where eviction suspends and changes wait for a start', suspending, true],
    [
      'are kept where a guest was up, also before a change',
      { ...suspending, conditions: [], memoryHost },
      true,
    ],
    ['are not kept of a guest that was stopped', { ...suspending, conditions: ready('Stopped') }, false],
    [
      'are not kept of one that shut itself down',
      { ...suspending, conditions: ready('GuestStopped') },
      false,
    ],
    ['are not kept of a guest with a GPU', { ...suspending, effective: withGpu, memoryHost }, false],
    [
      'are not kept where there is no claim',
      { ...suspending, effective: { ...effective, onEviction: 'Suspend' }, memoryHost },
      false,
    ],
    ['are not kept where eviction shuts down', { ...suspending, effective: onClaim }, false],
    ['are not kept where no change waits', { ...suspending, conditions: [] }, false],
    ['are not kept of a guest that has never run', { effective: evicted, conditions: restart }, false],
    ['are not kept of a VM that is new', {}, false],
  ])('%s', (_sentence, status, expected) => {
    expect(keepsSettings(aVm({ status }), false)).toBe(expected);
  });

  test.each<[string, VmStatus]>([
    ['that is on the claim', { suspendedTo: 'Disk' }],
    ['that may be there', suspending],
  ])('are not kept where a revert discards the memory %s', (_sentence, status) => {
    const spec = { revertRequest: 'b' };
    expect(keepsSettings(aVm({ spec, status }), false)).toBe(false);
    expect(keepsSettings(aVm({ spec, status: { ...status, revertRequest: 'b' } }), false)).toBe(true);
    // The guest goes on from it before that.
    expect(keepsSettings(aVm({ spec, status }), true)).toBe(true);
  });

  describe('where a restart is asked for', () => {
    const spec = { restartRequest: 'b' };
    const refused = [...restart, aCondition(conditionTypes.scheduled, { status: 'False' })];
    const runner = { podUid: 'pod-uid' };

    test.each<[string, VmStatus, boolean]>([
      ['are kept until the guest has gone on', suspending, true],
      ['are not kept of a guest that finds no place', { ...suspending, conditions: refused }, false],
      ['are kept where it has its place', { ...suspending, conditions: refused, runner }, true],
      ['are kept after it', { ...suspending, conditions: refused, restartRequest: 'b' }, true],
      ['are kept of a VM that is suspended', { suspendedTo: 'Disk', conditions: refused }, true],
    ])('%s', (_sentence, status, expected) => {
      expect(keepsSettings(aVm({ spec, status }), false)).toBe(expected);
    });
  });
});
