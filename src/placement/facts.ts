import type { HostPort } from './ports.ts';
import type { ResourceVector } from './resources.ts';
import type { Taint } from './taints.ts';

export type Accelerator = 'kvm' | 'tcg';

/** What placement knows of a node; made from the Node by `nodeFacts`. */
export interface NodeFacts {
  readonly name: string;
  readonly operatingSystem: string;
  readonly architecture: string;
  readonly ready: boolean;
  readonly cordoned: boolean;
  readonly taints: readonly Taint[];
  /** The `<tag>` of each label `tag.svc3.dev/<tag>=true`. */
  readonly tags: readonly string[];
  /** Label `svc3.dev/namespace`: takes only VMs of that namespace. */
  readonly reservedFor: string | undefined;
  /** Label `svc3.dev/gpu-passthrough=enabled`. */
  readonly gpuEnabled: boolean;
  /** Label `svc3.dev/accelerator`: wins over the chart's setting. */
  readonly accelerator: Accelerator | undefined;
  /** The kubelet manages local storage; where it does not, a pod that requests it would never be bound. */
  readonly reportsEphemeralStorage: boolean;
  /** Allocatable; the port dimensions are ignored, they come from the ranges. */
  readonly allocatable: ResourceVector;
}

/** What placement knows of a pod that is on a node or pinned to one. */
export interface PodFacts {
  readonly uid: string;
  readonly node: string;
  /** UID of the live VM that the operator made this pod for; the assumption made for that VM ends when its pod is seen. */
  readonly claim: string | undefined;
  /** Requests; the port dimensions are ignored, they come from the ports. */
  readonly requests: ResourceVector;
  readonly ports: readonly HostPort[];
}

/** The facts that decide alone, without what is in use, whether a node is a candidate. Nodes that share them are one class. */
export type ClassFacts = Omit<NodeFacts, 'name' | 'allocatable'> & {
  readonly hasGpu: boolean;
  readonly hasKvm: boolean;
};
