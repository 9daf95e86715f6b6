import { describe, expect, test } from 'vitest';
import type { Node, Pod } from '../../../src/api/core.ts';
import { nodeFacts } from '../../../src/placement/nodefacts.ts';
import { podFacts } from '../../../src/placement/podfacts.ts';
import { CPU, GPU, KVM, MEMORY, PODS } from '../../../src/placement/resources.ts';

const node: Node = {
  metadata: {
    name: 'n1',
    labels: {
      'kubernetes.io/arch': 'arm64',
      'kubernetes.io/os': 'linux',
      'svc3.dev/gpu-passthrough': 'enabled',
      'svc3.dev/accelerator': 'tcg',
      'svc3.dev/namespace': 'team-a',
      'tag.svc3.dev/ci': 'true',
      'tag.svc3.dev/off': 'false',
    },
  },
  spec: { taints: [{ key: 'k', value: 'v', effect: 'NoSchedule', timeAdded: 'x' }], unschedulable: true },
  status: {
    conditions: [{ type: 'Ready', status: 'True' }],
    allocatable: {
      cpu: '3920m',
      memory: '1Gi',
      pods: '110',
      'svc3.dev/gpu-passthrough': '1',
      'svc3.dev/kvm': '1k',
    },
  },
};

describe('nodeFacts', () => {
  test('takes labels, taints, conditions and allocatable', () => {
    const facts = nodeFacts(node);
    expect(facts).toMatchObject({
      name: 'n1',
      architecture: 'arm64',
      ready: true,
      cordoned: true,
      taints: [{ key: 'k', value: 'v', effect: 'NoSchedule' }],
      tags: ['ci'],
      reservedFor: 'team-a',
      gpuEnabled: true,
      accelerator: 'tcg',
      reportsEphemeralStorage: false,
    });
    expect([CPU, MEMORY, PODS, GPU, KVM].map((i) => facts.allocatable[i])).toEqual([
      3920,
      2 ** 30,
      110,
      1,
      1000,
    ]);
  });

  test.each([
    ['svc3.dev/gpu-passthrough', 'yes', { gpuEnabled: false }],
    ['svc3.dev/accelerator', 'xen', { accelerator: undefined }],
    ['svc3.dev/namespace', '', { reservedFor: undefined }],
  ])('a label %s=%s is as if it were not there', (label, value, expected) => {
    const labels = { ...node.metadata.labels, [label]: value };
    expect(nodeFacts({ ...node, metadata: { ...node.metadata, labels } })).toMatchObject(expected);
  });

  test('a node without status is not ready and has nothing', () => {
    expect(nodeFacts({ metadata: { name: 'n' } })).toMatchObject({ ready: false, tags: [] });
  });
});

const pod: Pod = {
  metadata: {
    name: 'p',
    uid: 'u',
    ownerReferences: [{ apiVersion: 'svc3.dev/v1', kind: 'VM', name: 'vm', uid: 'vm-uid', controller: true }],
  },
  spec: {
    nodeName: 'n1',
    overhead: { cpu: '100m' },
    initContainers: [{ name: 'i', resources: { requests: { memory: '4Gi' } } }],
    containers: [
      {
        name: 'a',
        resources: { requests: { cpu: '1', memory: '1Gi' } },
        ports: [{ containerPort: 22, hostPort: 8822 }, { containerPort: 1 }],
      },
      { name: 'b', resources: { requests: { cpu: '500m', 'svc3.dev/gpu-passthrough': '1' } } },
    ],
  },
};

const pinned: Pod = {
  ...pod,
  spec: {
    containers: [],
    affinity: {
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n2'] }] }],
        },
      },
    },
  },
};

describe('podFacts', () => {
  test('adds containers, the largest init container and the overhead', () => {
    const facts = podFacts(pod, 'vm-uid');
    expect(facts).toMatchObject({
      uid: 'u',
      node: 'n1',
      claim: 'vm-uid',
      ports: [{ port: 8822, protocol: 'TCP' }],
    });
    expect([CPU, MEMORY, PODS, GPU].map((i) => facts?.requests[i])).toEqual([1600, 4 * 2 ** 30, 1, 1]);
  });

  test("a VM's pinned pod counts before it is bound, nobody else's does", () => {
    expect(podFacts(pinned, 'vm-uid')).toMatchObject({ node: 'n2', claim: 'vm-uid' });
    expect(podFacts(pinned)).toBeUndefined();
  });

  test('a bound pod counts, whoever made it, and claims nothing by its owner reference', () => {
    expect(podFacts(pod)).toMatchObject({ node: 'n1', claim: undefined });
  });

  test.each(['Succeeded', 'Failed'] as const)('a pod that is %s counts no more', (phase) => {
    expect(podFacts({ ...pod, status: { phase } })).toBeUndefined();
  });

  test('a pod without a node does not count', () => {
    expect(podFacts({ ...pod, spec: { containers: [] } })).toBeUndefined();
  });

  test('ports of a pod on the network of the host count', () => {
    const spec = { ...pod.spec, hostNetwork: true };
    expect(podFacts({ ...pod, spec })?.ports).toEqual([
      { port: 8822, protocol: 'TCP' },
      { port: 1, protocol: 'TCP' },
    ]);
  });
});
