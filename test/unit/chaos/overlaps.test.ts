import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../src/api/core.ts';
import { sharedDisks, sharedGpus, twinGuests } from '../../chaos/judges/overlaps.ts';
import type { Sight } from '../../chaos/record/history.ts';
import { aPod } from '../controllers/vm/builders.ts';
import { aGuest, aHistory, sight } from './builders.ts';

describe('two guests', () => {
  const first = aGuest({ pid: 1, until: 50 });

  test('may have one disk after each other', () => {
    const history = aHistory({ guests: [first, aGuest({ pid: 2, since: 50 })] });
    expect(sharedDisks(history)).toEqual([]);
    expect(twinGuests(history)).toEqual([]);
  });

  test('must not have one disk at the same time', () => {
    const other = aGuest({ pid: 2, vmUid: 'other', since: 40, until: 60 });
    expect(sharedDisks(aHistory({ guests: [first, other] }))).toHaveLength(1);
    expect(twinGuests(aHistory({ guests: [first, other] }))).toEqual([]);
  });

  test('must not be of one VM at the same time, whatever their disks', () => {
    const twin = aGuest({ pid: 2, disks: ['8:2'], node: 'n2', since: 40, until: 60 });
    expect(twinGuests(aHistory({ guests: [first, twin] }))).toHaveLength(1);
    expect(sharedDisks(aHistory({ guests: [first, twin] }))).toEqual([]);
  });
});

describe('pods with a GPU', () => {
  function gpuSight(
    at: number,
    uid: string,
    node: string | undefined,
    given: Partial<Sight> = {},
    phase = 'Running',
  ): Sight {
    const pod = aPod({ metadata: { uid, name: uid }, ...(node === undefined ? {} : { nodeName: node }) });
    const [container] = pod.spec.containers;
    const resources = { limits: { 'svc3.dev/gpu-passthrough': '1' } };
    const containers = [{ ...container, name: 'runner', resources }];
    const object = { ...pod, spec: { ...pod.spec, containers }, status: { phase } } as Pod;
    return { ...sight('pods', at, object), ...given };
  }

  test.each([
    ['are on different nodes', [gpuSight(1, 'a', 'n1'), gpuSight(2, 'b', 'n2')], 0],
    ['are on one node at the same time', [gpuSight(1, 'a', 'n1'), gpuSight(2, 'b', 'n1')], 1],
    [
      'come after one that is gone',
      [gpuSight(1, 'a', 'n1'), gpuSight(2, 'a', 'n1', { type: 'DELETED' }), gpuSight(3, 'b', 'n1')],
      0,
    ],
    [
      'come after one that has ended',
      [gpuSight(1, 'a', 'n1'), gpuSight(2, 'a', 'n1', {}, 'Failed'), gpuSight(3, 'b', 'n1')],
      0,
    ],
    ['wait without a node', [gpuSight(1, 'a', 'n1'), gpuSight(2, 'b', undefined)], 0],
  ])('that %s', (_, sights, violations) => {
    expect(sharedGpus(aHistory({ sights }))).toHaveLength(violations);
  });

  test('are those that ask for one', () => {
    const plain = [
      sight('pods', 1, aPod({ nodeName: 'n1', metadata: { uid: 'a' } })),
      sight('pods', 1, aPod({ nodeName: 'n1', metadata: { uid: 'b' } })),
    ];
    expect(sharedGpus(aHistory({ sights: plain }))).toEqual([]);
  });
});
