import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import { observe, type ObserverParts } from '../../../../src/controllers/vm/observe.ts';
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
    sources: {},
    expectations: {
      vm: () => chose,
      pod: (name: string) => pods.find(({ metadata }) => metadata.name === name),
    },
    images: () => [],
    pullSecretVersion: () => undefined,
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
