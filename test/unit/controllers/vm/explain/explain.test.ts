import { expect, test } from 'vitest';
import type { Node, Pod } from '../../../../../src/api/core.ts';
import type { Vm, VmStatus } from '../../../../../src/api/vm.ts';
import { explainVm, imageNameOf } from '../../../../../src/controllers/vm/explain/explain.ts';
import { vmSettings } from '../../../../support/operator.ts';
import { aPod, aVm, effective } from '../builders.ts';
import { anImage } from '../../image/builders.ts';
import { storedMeta } from '../../../../support/storedmeta.ts';

function aNode(name: string, cpu: string, labels: Record<string, string> = {}): Node {
  return {
    metadata: storedMeta({
      name,
      labels: { 'kubernetes.io/arch': 'amd64', 'kubernetes.io/os': 'linux', ...labels },
    }),
    status: {
      conditions: [{ type: 'Ready', status: 'True' }],
      allocatable: { cpu, memory: '32Gi', pods: '110' },
    },
  };
}

const nodes = [aNode('n1', '3'), aNode('n2', '2'), aNode('n3', '8', { 'svc3.dev/namespace': 'other' })];

test('every node has its verdict, before the VM is placed', () => {
  const verdicts = explainVm({
    vm: aVm(),
    config: undefined,
    nodes,
    pods: [],
    vms: [],
    settings: vmSettings(),
  });
  expect(verdicts).toEqual([
    { node: 'n1', fits: true, reasons: [], free: 100 },
    { node: 'n2', fits: false, reasons: ['Insufficient cpu'], free: 100 },
    { node: 'n3', fits: false, reasons: ['node(s) were reserved for another namespace'], free: 100 },
  ]);
});

test('the VMConfig counts', () => {
  const config = { metadata: storedMeta({ name: 'small' }), spec: { cpu: 2 } };
  const verdicts = explainVm({ vm: aVm(), config, nodes, pods: [], vms: [], settings: vmSettings() });
  expect(verdicts.map(({ fits }) => fits)).toEqual([true, true, false]);
});

test("a VM's own pod is not in its way, another VM's is, and a tenant's is where it is bound", () => {
  const vm = aVm({ spec: { cpu: 3 } });
  const other = aVm({ metadata: { name: 'b', uid: 'b' } });
  const own = aPod();
  const owner = { apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'b', uid: 'b', controller: true };
  const others = { ...own, metadata: { ...own.metadata, name: 'svc3-vm-b', ownerReferences: [owner] } };
  const { ownerReferences: _owners, ...nobodys } = { ...own.metadata, name: 'x' };
  const foreign = { ...own, metadata: nobodys };
  const fits = (pod: Pod) =>
    explainVm({ vm, config: undefined, nodes, pods: [pod], vms: [vm, other], settings: vmSettings() })[0]
      ?.fits;
  expect(fits(own)).toBe(true);
  expect(fits(others)).toBe(false);
  expect(fits(foreign)).toBe(true);
  expect(fits({ ...foreign, spec: { ...foreign.spec, nodeName: 'n1' } })).toBe(false);
});

test('the architecture counts where somebody says it: what an image of a registry is for is not known', () => {
  const arm = aNode('arm', '8', { 'kubernetes.io/arch': 'arm64' });
  const given = { config: undefined, nodes: [arm], pods: [], vms: [], settings: vmSettings() };
  const fits = (spec: Partial<Vm['spec']>) =>
    explainVm({ ...given, vm: aVm({ spec }) }).map(({ fits: isFit }) => isFit);
  expect([fits({}), fits({ architecture: 'arm64' }), fits({ architecture: 'amd64' })]).toEqual([
    [true],
    [true],
    [false],
  ]);
});

test('a VM that was placed is judged by what its next pod has', () => {
  const settings = { ...effective, disk: { storage: 'Persistent' } } as const;
  const vm = aVm({
    spec: { cpu: 8, nodeName: 'n1' },
    metadata: { generation: 2 },
    status: { effective: settings },
  });
  const given = { config: undefined, nodes, pods: [], vms: [], settings: vmSettings() };
  const reasonsOf = (status: VmStatus) => explainVm({ ...given, vm: { ...vm, status } })[0]?.reasons;
  expect(reasonsOf({ effective: settings })).toEqual(['Insufficient cpu']);
  // A guest that goes on from its memory has to be what it was.
  expect(reasonsOf({ effective: settings, suspendedTo: 'Disk' })).toEqual([]);
});

test('a node on which the VM would go without a port that is taken fits, and says so; what it lacks beside that is told', () => {
  const vm = aVm({ spec: { cpu: 3, ports: [{ nodePort: 20000, guestPort: 80, protocol: 'TCP' }] } });
  const owner = aPod({ nodeName: 'n1' });
  const containers = [{ name: 'c', ports: [{ containerPort: 80, hostPort: 20000 }] }];
  const on = (nodeName: string): Pod => ({
    ...owner,
    metadata: storedMeta({ name: `on-${nodeName}`, uid: nodeName }),
    spec: { nodeName, containers },
  });
  const pods = ['n1', 'n2'].map(on);
  const settings = { ...vmSettings(), hostPortsAllowed: [{ first: 20000, last: 20999 }] };
  const told = explainVm({ vm, config: undefined, nodes, pods, vms: [], settings });
  expect(told.map(({ reasons }) => reasons)).toEqual([
    [],
    ['Insufficient cpu'],
    ['node(s) were reserved for another namespace'],
  ]);
  expect(told.map(({ withoutPorts }) => withoutPorts)).toEqual([['20000/TCP'], undefined, undefined]);
  const [free] = explainVm({ vm, config: undefined, nodes, pods: pods.slice(1), vms: [], settings });
  expect(free).not.toHaveProperty('withoutPorts');
});

test('where nobody names an image there is no Image, and no verdict', () => {
  const { image: _image, ...spec } = aVm().spec;
  const vm = { ...aVm(), spec };
  expect(imageNameOf(vm, undefined)).toBeUndefined();
  expect(explainVm({ vm, config: undefined, nodes, pods: [], vms: [], settings: vmSettings() })).toEqual([]);
});

test('a VM that no node could take for reasons of its own has no verdicts', () => {
  const vm = aVm({ spec: { gpuPassthrough: 'Enabled' } });
  expect(explainVm({ vm, config: undefined, nodes, pods: [], vms: [], settings: vmSettings() })).toEqual([]);
});

test('a VM whose image has a memory is told of each node how its guest would start, also before it is placed', () => {
  const digest = `sha256:${'a'.repeat(64)}`;
  const memory = {
    digest,
    size: '256Mi',
    cpu: 1,
    cpuModel: 'max',
    accelerator: 'tcg',
    qemu: '10.0.3',
  } as const;
  const reference = `r.example.com/svc3/team/golden@${digest}`;
  const status = { digest, reference, architecture: 'amd64', memory } as const;
  const image = anImage({ vm: { name: 'web', mode: 'SaveWithMemory' } }, status);
  const vm = aVm({ spec: { image: 'golden', cpu: 1, memory: '256Mi' } });
  expect(imageNameOf(vm, undefined)).toBe('golden');
  const given = { vm, config: undefined, nodes, pods: [], vms: [], settings: vmSettings() };
  const told = explainVm({ ...given, image: { ...image, metadata: { ...image.metadata, name: 'golden' } } });
  expect(told.map(({ warmStart }) => warmStart?.fromMemory)).toEqual([true, true, true]);
  // Its size is that of the guest where nobody says another.
  const sizeless = explainVm({ ...given, vm: aVm({ spec: { image: 'golden' } }), image });
  expect(sizeless.map(({ warmStart }) => warmStart?.fromMemory)).toEqual([true, true, true]);
  expect(explainVm(given).map(({ warmStart }) => warmStart)).toEqual([undefined, undefined, undefined]);
});

test.each([
  ['names a reference of a registry', aVm()],
  [
    'gets it from another namespace',
    aVm({ spec: { image: undefined, config: 'c', configNamespace: 'other' } }),
  ],
  [
    'runs from the Image of another',
    aVm({ status: { effective: { ...effective, imageName: 'a', imageNamespace: 'b' } } }),
  ],
])('there is no Image to look at where the VM %s', (_what, vm) => {
  expect(imageNameOf(vm, { metadata: storedMeta({ name: 'c' }), spec: { image: 'golden' } })).toBeUndefined();
});
