import type { NodeFacts, PodFacts } from '../../../src/placement/facts.ts';
import type { PlacementRequest } from '../../../src/placement/place.ts';
import type { PortRanges } from '../../../src/placement/ports.ts';
import {
  CPU,
  emptyVector,
  EPHEMERAL_STORAGE,
  GPU,
  KVM,
  MEMORY,
  PODS,
} from '../../../src/placement/resources.ts';

export const Gi = 2 ** 30;

export const ranges: PortRanges = {
  ssh: { first: 8822, last: 8871 },
  screenshare: { first: 5900, last: 5949 },
};

export interface Amounts {
  cpu?: number;
  memory?: number;
  ephemeral?: number;
  pods?: number;
  gpu?: number;
  kvm?: number;
}

export function amounts(given: Amounts): number[] {
  const vector = emptyVector();
  vector[CPU] = (given.cpu ?? 0) * 1000;
  vector[MEMORY] = (given.memory ?? 0) * Gi;
  vector[EPHEMERAL_STORAGE] = (given.ephemeral ?? 0) * Gi;
  vector[PODS] = given.pods ?? 0;
  vector[GPU] = given.gpu ?? 0;
  vector[KVM] = given.kvm ?? 0;
  return vector;
}

/** A ready amd64 node of 8 CPUs and 32 Gi. */
export function aNode(
  name: string,
  given: Partial<Omit<NodeFacts, 'allocatable'>> & Amounts = {},
): NodeFacts {
  const { cpu = 8, memory = 32, ephemeral = 100, pods = 110, gpu = 0, kvm = 0, ...facts } = given;
  return {
    name,
    operatingSystem: 'linux',
    architecture: 'amd64',
    ready: true,
    cordoned: false,
    taints: [],
    labels: {},
    tags: [],
    reservedFor: undefined,
    gpuEnabled: false,
    accelerator: undefined,
    hostCpu: undefined,
    foundKvm: undefined,
    reportsEphemeralStorage: true,
    allocatable: amounts({ cpu, memory, ephemeral, pods, gpu, kvm }),
    ...facts,
  };
}

export function aPod(
  uid: string,
  node: string,
  given: Partial<Omit<PodFacts, 'requests'>> & Amounts = {},
): PodFacts {
  const { cpu, memory, ephemeral, gpu, kvm, ...facts } = given;
  const requests = amounts({
    cpu: cpu ?? 1,
    memory: memory ?? 1,
    ephemeral: ephemeral ?? 0,
    pods: 1,
    gpu: gpu ?? 0,
    kvm: kvm ?? 0,
  });
  const neighbour = { namespace: 'default', labels: {}, repels: [] };
  return { uid, node, assumedAs: undefined, ports: [], requests, neighbour, isNodeAgent: false, ...facts };
}

/** A VM of 1 CPU and 1 Gi in namespace `default`, without ports. */
export function aRequest(given: Partial<PlacementRequest> = {}): PlacementRequest {
  return {
    namespace: 'default',
    labels: {},
    affinity: undefined,
    topologySpreadConstraints: [],
    architecture: 'amd64',
    cpuMilli: 1000,
    memoryBytes: Gi,
    emulationBytes: 0,
    ephemeralStorageBytes: 0,
    gpu: false,
    accelerator: 'auto',
    nodeName: undefined,
    tag: undefined,
    tagRequired: false,
    packed: false,
    tolerations: [],
    services: [],
    reservedPorts: [],
    ...given,
  };
}
