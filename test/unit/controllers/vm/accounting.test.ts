import { beforeEach, describe, expect, test } from 'vitest';
import type { Pod } from '../../../../src/api/core.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import { createStore } from '../../../../src/kube/store.ts';
import type { KubeObject } from '../../../../src/api/object.ts';
import type { Change, Informer } from '../../../../src/kube/types.ts';
import { Inventory } from '../../../../src/placement/inventory.ts';
import { PODS } from '../../../../src/placement/resources.ts';
import { accountPods, podNameIndex } from '../../../../src/controllers/vm/accounting.ts';
import { aNode, ranges } from '../../placement/builders.ts';
import { aPod, aVm } from './builders.ts';

/** The store of an informer, whose events come from the test. */
function fed<T extends KubeObject>() {
  const store = createStore<T>();
  const handlers: ((change: Change<T>) => void)[] = [];
  const tell = (changes: readonly Change<T>[]) => {
    for (const change of changes) for (const handler of handlers) handler(change);
  };
  return {
    informer: {
      get: (name: string, namespace?: string) => store.get(name, namespace),
      byIndex: (index: string, value: string) => store.byIndex(index, value),
      onChange: (handler: (change: Change<T>) => void) => void handlers.push(handler),
    } as Informer<T>,
    store,
    see: (object: T) => tell(store.put(object)),
    lose: (object: T) => tell(store.remove(object)),
  };
}

let inventory: Inventory;
let vms: ReturnType<typeof fed<Vm>>;
let pods: ReturnType<typeof fed<Pod>>;
let freed: number;
let came: number;

beforeEach(() => {
  inventory = new Inventory(ranges);
  inventory.setNode(aNode('n1'));
  vms = fed<Vm>();
  vms.store.addIndexes(podNameIndex);
  pods = fed<Pod>();
  freed = 0;
  came = 0;
  accountPods({
    pods: pods.informer,
    vms: vms.informer,
    inventory,
    freed: () => void (freed += 1),
    came: () => void (came += 1),
  });
});

const counted = () => inventory.node('n1')?.used[PODS];
const vm = aVm();
const unbound = aPod();
const bound = aPod({ nodeName: 'n1', metadata: { resourceVersion: '6' } });

describe("a VM's pod that is not bound", () => {
  test('counts whichever is seen first', () => {
    pods.see(unbound);
    expect(counted()).toBe(0);
    vms.see(vm);
    expect(counted()).toBe(1);
  });

  test('counts no more when the VM is gone, and somebody may have its place', () => {
    vms.see(vm);
    pods.see(unbound);
    expect(counted()).toBe(1);
    vms.lose(vm);
    expect([counted(), freed]).toEqual([0, 1]);
  });

  test('counts no more when another VM has the name', () => {
    vms.see(vm);
    pods.see(unbound);
    vms.see(aVm({ metadata: { uid: 'another' } }));
    expect([counted(), freed]).toEqual([0, 1]);
  });

  test.each<[what: string, metadata: Partial<Pod['metadata']>]>([
    ['another name', { name: 'svc3-vm-other' }],
    ['a name that is no VM pod’s', { name: 'squatter' }],
    ['another namespace', { namespace: 'elsewhere' }],
    ['an owner of another UID', { ownerReferences: [{ ...owner(), uid: 'x' }] }],
    ['an owner that is not its controller', { ownerReferences: [{ ...owner(), controller: false }] }],
    ['labels alone', { ownerReferences: [] }],
  ])('is none with %s', (_, metadata) => {
    vms.see(vm);
    pods.see(aPod({ metadata }));
    expect(counted()).toBe(0);
  });

  test('that is none leaves the assumption of the VM alone', () => {
    vms.see(vm);
    const requests = [1, 1, 1, 1, 0, 0, 0, 0, 0];
    inventory.assume('vm-uid', { node: 'n1', requests, ports: [] });
    pods.see(aPod({ nodeName: 'n1', metadata: { name: 'forged' } }));
    expect(counted()).toBe(2);
  });
});

test('a pod that came, or has other labels, is news for those who wait for a neighbour; one that is seen again is none', () => {
  pods.see(bound);
  pods.see({ ...bound, metadata: { ...bound.metadata, resourceVersion: '7' } });
  expect(came).toBe(1);
  const { labels } = bound.metadata;
  pods.see({
    ...bound,
    metadata: { ...bound.metadata, resourceVersion: '8', labels: { ...labels, app: 'db' } },
  });
  expect([came, counted()]).toEqual([2, 1]);
});

test('a pod that becomes smaller in place gives back room, and one that grows does not', () => {
  const [container] = bound.spec.containers;
  const sized = (resourceVersion: string, cpu: string) => ({
    ...bound,
    metadata: { ...bound.metadata, resourceVersion },
    spec: { ...bound.spec, containers: [{ ...container!, resources: { requests: { cpu } } }] },
  });
  pods.see(sized('6', '2'));
  pods.see(sized('7', '4'));
  expect(freed).toBe(0);
  pods.see(sized('8', '1'));
  expect(freed).toBe(1);
});

test('a bound pod counts until it is gone, also without a VM', () => {
  vms.see(vm);
  pods.see(bound);
  vms.lose(vm);
  expect([counted(), freed]).toEqual([1, 0]);
  pods.lose(bound);
  expect([counted(), freed]).toEqual([0, 1]);
});

function owner() {
  return unbound.metadata.ownerReferences![0]!;
}
