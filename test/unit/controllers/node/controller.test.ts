import { beforeEach, expect, onTestFinished, test } from 'vitest';
import type { Node } from '../../../../src/api/core.ts';
import { nodes, vms } from '../../../../src/api/resources.ts';
import type { Vm } from '../../../../src/api/vm.ts';
import type { Controller } from '../../../../src/controller/controller.ts';
import { createNodeController } from '../../../../src/controllers/node/controller.ts';
import type { Change } from '../../../../src/kube/types.ts';
import { storedMeta } from '../../../support/storedmeta.ts';
import { FakeInformers } from '../fakeinformers.ts';
import { aCondition, aVm, effective } from '../vm/builders.ts';

let informers: FakeInformers;
let controller: Controller;
/** Nodes that a pass was made over. */
let woken: Set<string>;

beforeEach(() => {
  informers = new FakeInformers();
  const nothing = () => undefined;
  controller = createNodeController({
    informers: informers.asInformers(),
    gate: { isHeld: () => true, assertHeld: nothing },
    metrics: {
      controllers: { workqueue: nothing, queued: nothing, worked: nothing, reconciled: nothing },
    },
  } as unknown as Parameters<typeof createNodeController>[0]);
  const stopping = new AbortController();
  const run = controller.run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await run;
  });
  woken = new Set();
  // There is none: a pass over it asks for it, and has nothing to do.
  informers.of(nodes).asked = (name) => void woken.add(name);
});

const node: Node = { metadata: storedMeta({ name: 'n1' }) };

/** A VM that cannot use the GPUs of this node; undefined: that can. */
function vmOn(name: string, faulty = true): Vm {
  const booted = aCondition('Booted', { status: 'False', reason: 'GPUUnavailable', message: 'busy' });
  return aVm({
    status: {
      node: name,
      effective: { ...effective, gpuPassthrough: 'Enabled' },
      conditions: faulty ? [booted] : [],
    },
  });
}
const changed = (old: Vm, object: Vm): Change<Vm> => ({ kind: 'updated', old, object });

test.each<[what: string, happens: () => void, expected: string[]]>([
  ['that comes', () => informers.of(nodes).tell({ kind: 'added', object: node }), ['n1']],
  ['that changes', () => informers.of(nodes).tell({ kind: 'updated', object: node, old: node }), ['n1']],
  ['that goes', () => informers.of(nodes).tell({ kind: 'deleted', object: node }), ['n1']],
  ['whose GPUs a VM cannot use', () => informers.of(vms).tell({ kind: 'added', object: vmOn('n1') }), ['n1']],
  [
    'whose GPUs a VM cannot use any longer',
    () => informers.of(vms).tell(changed(vmOn('n1', false), vmOn('n1'))),
    ['n1'],
  ],
  [
    'whose GPUs a VM can use again',
    () => informers.of(vms).tell(changed(vmOn('n1'), vmOn('n1', false))),
    ['n1'],
  ],
  [
    'that such a VM has left, and the one that it is on now',
    () => informers.of(vms).tell(changed(vmOn('n1'), vmOn('n2'))),
    ['n1', 'n2'],
  ],
  [
    'whose VM that could not use them is gone',
    () => informers.of(vms).tell({ kind: 'deleted', object: vmOn('n1') }),
    ['n1'],
  ],
])('a node %s is looked at', async (_what, happens, expected) => {
  happens();
  await expect.poll(() => controller.pending()).toBe(0);
  expect([...woken].toSorted()).toEqual(expected);
});

test('a VM that can use the GPUs of its node has no node looked at', () => {
  informers.of(vms).tell({ kind: 'added', object: vmOn('n1', false) });
  informers.of(vms).tell(changed(vmOn('n1', false), aVm()));
  expect(controller.pending()).toBe(0);
});

test('VMs that cannot use GPUs are found by their node', () => {
  informers.of(vms).objects = [vmOn('n1'), vmOn('n2'), vmOn('n1', false)];
  expect(informers.of(vms).byIndex('gpuFault', 'n1')).toHaveLength(1);
});
