import { describe, expect, test } from 'vitest';
import type { Pod } from '../../../../../src/api/core.ts';
import type { ObjectMeta } from '../../../../../src/api/object.ts';
import { isPodOf } from '../../../../../src/controllers/vm/facts/ownpod.ts';
import { aStandby, ownedBy } from '../../vmpool/builders.ts';
import { aPod, aVm } from '../builders.ts';

const vm = aVm();
const withGuest = aVm({ status: { podName: 'svc3-pool-1' } });
const { labels, annotations } = aPod().metadata;

/** As the garbage collector leaves it. */
function orphaned(pod: Pod, metadata: ObjectMeta = {}): Pod {
  return { ...pod, metadata: { ...pod.metadata, ownerReferences: [], ...metadata } };
}

describe('the pod of a VM is', () => {
  test.each<[sentence: string, pod: Pod, its?: typeof vm]>([
    ['the one that it owns', aPod()],
    ['the one that was made for it, where nobody owns that any more', orphaned(aPod())],
    ['the guest of a pool that it got', ownedBy(vm, aStandby('1'))],
    [
      'and that one without an owner, which its status names',
      orphaned(ownedBy(vm, aStandby('1'))),
      withGuest,
    ],
  ])('%s', (_sentence, pod, its = vm) => {
    expect(isPodOf(pod, its)).toBe(true);
  });
});

describe('without an owner it is not', () => {
  const told = (text: string | undefined) => ({
    annotations: { ...annotations, ...(text === undefined ? {} : { 'svc3.dev/runner-spec': text }) },
  });

  test.each<[sentence: string, pod: Pod, its?: typeof vm]>([
    [
      'one of another controller',
      orphaned(aPod(), {
        ownerReferences: [
          { apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'r', uid: 'r', controller: true },
        ],
      }),
    ],
    ['one that anybody may have annotated, for want of our label', orphaned(aPod(), { labels: {} })],
    ['one of another VM', orphaned(aPod(), { labels: { ...labels, 'svc3.dev/vm': 'other' } })],
    ['one that was made for a VM of its name before', orphaned(aPod()), aVm({ metadata: { uid: 'next' } })],
    ['one that says nothing readable of that', orphaned(aPod(), told('{'))],
    ['one that says nothing of that', orphaned(aPod(), told('null'))],
    ['one that was told nothing', orphaned(aPod(), { annotations: {} })],
    ['a guest of a pool that its status does not name', orphaned(ownedBy(vm, aStandby('1')))],
    ['a guest of a pool that it has chosen and did not get', orphaned(aStandby('1')), withGuest],
  ])('%s', (_sentence, pod, its = vm) => {
    expect(isPodOf(pod, its)).toBe(false);
  });
});
