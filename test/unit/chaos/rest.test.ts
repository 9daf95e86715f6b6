import { describe, expect, test } from 'vitest';
import type { Node } from '../../../src/api/core.ts';
import type { Image } from '../../../src/api/image.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { leftovers } from '../../chaos/judges/leftovers.ts';
import { notAtRest } from '../../chaos/judges/atrest.ts';
import type { Condition } from '../../../src/api/object.ts';
import { aCondition, aVm } from '../controllers/vm/builders.ts';
import { deletionTimestamp } from './builders.ts';
import { storedMeta } from '../../support/storedmeta.ts';

const nothing = { nodes: [], vms: [], images: [], systemPods: [] };

function vmWith(conditions: Condition[], given: Parameters<typeof aVm>[0] = {}): Vm {
  return aVm({ ...given, status: { observedGeneration: 1, conditions } });
}

function imageWith(conditions: Condition[]): Image {
  return {
    metadata: storedMeta({ name: 'saved', namespace: 'team', generation: 1 }),
    spec: { source: { blank: { size: '1Gi' } } },
    status: { observedGeneration: 1, conditions },
  };
}

const ready = aCondition('Ready');
const notReady = aCondition('Ready', { status: 'False', reason: 'Starting' });

describe('a VM', () => {
  test.each([
    ['is as asked', vmWith([ready]), true],
    ['is stalled with a reason', vmWith([notReady, aCondition('Stalled', { reason: 'QEMUFailed' })]), true],
    ['was shut down by its guest', vmWith([{ ...notReady, reason: 'GuestStopped' }]), true],
    ['is being started', vmWith([notReady]), false],
    ['is not known yet', aVm(), false],
    ['is requested for anew', vmWith([ready], { metadata: { generation: 2 } }), false],
    ['is being deleted', vmWith([ready], { metadata: { deletionTimestamp } }), false],
  ])('that %s', (_, vm, isAtRest) => {
    expect(notAtRest({ ...nothing, vms: [vm] })).toHaveLength(isAtRest ? 0 : 1);
  });
});

describe('an image', () => {
  test.each([
    ['is Ready', imageWith([ready]), true],
    ['has failed', imageWith([notReady, aCondition('Stalled', { reason: 'SourceNotFound' })]), true],
    ['is worked on', imageWith([notReady]), false],
    ['is stalled and says not why', imageWith([notReady, aCondition('Stalled', { reason: '' })]), false],
  ])('that %s', (_, image, isAtRest) => {
    expect(notAtRest({ ...nothing, images: [image] })).toHaveLength(isAtRest ? 0 : 1);
  });
});

test('a node that is not Ready is told', () => {
  const node: Node = {
    metadata: storedMeta({ name: 'n1' }),
    status: { conditions: [{ type: 'Ready', status: 'Unknown' }] },
  };
  expect(notAtRest({ ...nothing, nodes: [node] })).toMatchObject([{ name: 'n1', what: 'not Ready' }]);
});

describe('what is left', () => {
  const none = { objects: [], manifests: [], blobs: [], guests: [], volumes: [] };

  test('is not what every namespace has', () => {
    const objects = ['configmaps team/kube-root-ca.crt', 'serviceaccounts team/default'];
    expect(leftovers({ ...none, objects })).toEqual([]);
  });

  test.each([
    { ...none, objects: ['secrets team/svc3-worker-tickets'] },
    { ...none, manifests: ['svc3/team/saved@sha256:d'] },
    { ...none, blobs: ['sha256:d'] },
    { ...none, guests: ['QEMU 1'] },
    { ...none, volumes: ['pvc-1'] },
  ])('is told: %o', (remains) => {
    expect(leftovers(remains)).toHaveLength(1);
  });
});
