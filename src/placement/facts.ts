import type { HostCpu } from '../api/hostcpu.ts';
import type { Labels, Selector } from '../api/selector.ts';
import type { HostPort } from './ports.ts';
import type { ResourceVector } from './resources.ts';
import type { Taint } from '../api/core.ts';

export type Accelerator = 'kvm' | 'tcg';

/** What affinity asks of a pod that is on a node, or of a decision whose pod is not in the cache yet. */
export interface Neighbour {
  readonly namespace: string;
  readonly labels: Labels;
  /** Pods of its namespace that may not be in one topology domain with it (required anti-affinity). */
  readonly repels: readonly PodTerm[];
}

/** Pods by their labels, in the topology domains that a node label makes. */
export interface PodTerm {
  readonly labelSelector?: Selector | undefined;
  readonly topologyKey: string;
}

/** What placement knows of a node; made from the Node by `nodeFacts`. */
export interface NodeFacts {
  readonly name: string;
  readonly operatingSystem: string;
  readonly architecture: string;
  readonly ready: boolean;
  readonly cordoned: boolean;
  readonly taints: readonly Taint[];
  /** All of them, for affinity. */
  readonly labels: Labels;
  /** The `<tag>` of each label `tag.svc3.dev/<tag>=true`. */
  readonly tags: readonly string[];
  /** Label `svc3.dev/namespace`: takes only VMs of that namespace. */
  readonly reservedFor: string | undefined;
  /** Label `svc3.dev/gpu-passthrough=enabled`. */
  readonly gpuEnabled: boolean;
  /** Label `svc3.dev/accelerator`: wins over the chart's setting. */
  readonly accelerator: Accelerator | undefined;
  /** As its node agent reports it; undefined until then. */
  readonly hostCpu: HostCpu | undefined;
  /** Whether its node agent has found hardware virtualisation; undefined until it has reported. */
  readonly foundKvm: boolean | undefined;
  /** The kubelet manages local storage; where it does not, a pod that requests it would never be bound. */
  readonly reportsEphemeralStorage: boolean;
  /** Allocatable; the port dimensions are ignored, they come from the ranges. */
  readonly allocatable: ResourceVector;
}

/** What placement knows of a pod that is on a node or pinned to one. */
export interface PodFacts {
  readonly uid: string;
  readonly node: string;
  /** What its node was assumed under: the UID of the live VM that it was made for, or the key of a pool's pod. The assumption ends when the pod is seen. */
  readonly assumedAs: string | undefined;
  /** Requests; the port dimensions are ignored, they come from the ports. */
  readonly requests: ResourceVector;
  readonly ports: readonly HostPort[];
  readonly neighbour: Neighbour;
  /** It is the node agent's: the node's hardware will be reported. */
  readonly isNodeAgent: boolean;
}

/**
 * Hardware virtualisation of a node: its device can be given to pods (`Ready`); its agent has found it, and the kubelet has no device yet, as
 * after a reboot (`Found`); the agent that is there has not reported yet (`Unknown`); there is none, or nobody who would tell (`None`).
 */
export type KvmState = 'Ready' | 'Found' | 'Unknown' | 'None';

/** The facts that decide alone, without what is in use, whether a node is a candidate. Nodes that share them are one class. */
export type ClassFacts = Omit<NodeFacts, 'name' | 'labels' | 'allocatable' | 'foundKvm'> & {
  readonly hasGpu: boolean;
  readonly kvm: KvmState;
};
