import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import { StartWaits } from '../../../../src/controllers/startwaits.ts';
import { podNameOf, podNamesOf } from '../../../../src/controllers/vm/names.ts';
import { observe, type ObserverParts } from '../../../../src/controllers/vm/observe.ts';
import { vmSettings } from '../../../support/operator.ts';
import { aPoolVm, aStandby, ownedBy } from '../vmpool/builders.ts';
import { aPod, aVm, effective, runningStatus } from './builders.ts';

const chose = aVm({ status: { effective, podName: 'svc3-pool-1' } });
const own = aPod({ nodeName: 'n1', status: runningStatus(true) });
const got = ownedBy(chose, aStandby('1'));
const taken = ownedBy(aPoolVm('first'), aStandby('1'));

function podSeen(pods: readonly Pod[]): Pod | undefined {
  const parts = {
    vms: { get: () => chose },
    nodes: { get: () => undefined },
    claims: { get: () => undefined },
    sources: { settings: vmSettings() },
    expectations: {
      vm: () => chose,
      pod: (name: string) => pods.find(({ metadata }) => metadata.name === name),
    },
    images: () => [],
    pullSecretVersion: () => undefined,
    startWaits: new StartWaits(() => 0),
    saveWaitMs: 0,
    now: () => new Date(0),
  };
  return observe(parts as unknown as ObserverParts, 'team/web')?.pod;
}

describe('the pod of a VM that has chosen a guest of a pool is', () => {
  test.each<[sentence: string, pods: readonly Pod[], seen: Pod | undefined]>([
    ['its own, where another VM got the guest', [taken, own], own],
    ['its own, where the guest is still the pool’s', [aStandby('1'), own], own],
    ['the guest, while it has none of its own', [taken], taken],
    ['the guest that it got', [got], got],
    ['none, where both are gone', [], undefined],
  ])('%s', (_sentence, pods, seen) => {
    expect(podSeen(pods)).toEqual(seen);
  });
});

describe('the names that the pod of a VM may have', () => {
  test.each([
    ['its own', undefined, ['svc3-vm-web']],
    ['its own, once', 'svc3-vm-web', ['svc3-vm-web']],
    ['that of the guest that it chose first', 'svc3-pool-1', ['svc3-pool-1', 'svc3-vm-web']],
  ])('are %s', (_sentence, podName, expected) => {
    const status = podName === undefined ? {} : { podName };
    expect(podNamesOf(aVm({ status }))).toEqual(expected);
  });
});

describe('the name of the pod that is made for a VM', () => {
  const name = (length: number): string => 'a'.repeat(length);

  test('is that of the VM with a prefix, as long as it fits a label', () => {
    const prefix = podNameOf('');
    expect(podNameOf('web')).toBe(`${prefix}web`);
    expect(podNameOf(name(63 - prefix.length))).toBe(prefix + name(63 - prefix.length));
  });

  test('ends with a hash of the whole name where it would be longer', () => {
    const [one, other] = [`${name(80)}b`, `${name(80)}c`];
    for (const each of [podNameOf(one), podNameOf(other), podNameOf(name(64 - podNameOf('').length))]) {
      expect(each).toMatch(/a-[0-9a-f]{8}$/);
      expect(each).toHaveLength(63);
    }
    expect(podNameOf(one)).not.toBe(podNameOf(other));
    // Another name would be another pod beside the one that is there.
    expect(podNameOf(name(80))).toBe(`svc3-vm-${name(46)}-0f45e858`);
  });

  test('is a name also where it is cut behind a dot or a dash', () => {
    const before = 63 - 9 - podNameOf('').length;
    for (const end of ['.', '-', '--'])
      expect(podNameOf(name(before - end.length) + end + name(20))).toMatch(/a-[0-9a-f]{8}$/);
  });
});
