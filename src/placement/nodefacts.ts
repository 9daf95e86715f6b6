import type { Node } from '../api/core.ts';
import { readNodeCpu, readNodeKvm } from '../api/hardware.ts';
import { annotations, extendedResources, labels, tagLabelPrefix } from '../api/meta.ts';
import { milliAmount, wholeAmount } from './amount.ts';
import type { Accelerator, NodeFacts } from './facts.ts';
import {
  CPU,
  emptyVector,
  EPHEMERAL_STORAGE,
  GPU,
  KVM,
  MEMORY,
  PODS,
  type ResourceVector,
} from './resources.ts';

/** What placement needs of a Node. A label with a value that is not understood counts as absent. */
export function nodeFacts(node: Node): NodeFacts {
  const nodeLabels = node.metadata.labels ?? {};
  const info = node.status?.nodeInfo;
  const allocatable = node.status?.allocatable;
  return {
    name: node.metadata.name,
    operatingSystem: nodeLabels['kubernetes.io/os'] ?? info?.operatingSystem ?? 'linux',
    architecture: nodeLabels['kubernetes.io/arch'] ?? info?.architecture ?? '',
    ready: node.status?.conditions?.some((c) => c.type === 'Ready' && c.status === 'True') ?? false,
    cordoned: node.spec?.unschedulable === true,
    taints: (node.spec?.taints ?? []).map(({ key, value = '', effect }) => ({ key, value, effect })),
    labels: nodeLabels,
    tags: tagsOf(nodeLabels),
    reservedFor: reservedFor(node),
    gpuEnabled: nodeLabels[labels.gpuPassthrough] === 'enabled',
    accelerator: acceleratorLabel(nodeLabels[labels.accelerator]),
    ...reportedBy(node.metadata.annotations?.[annotations.hardware]),
    reportsEphemeralStorage: allocatable?.['ephemeral-storage'] !== undefined,
    allocatable: allocatableOf(allocatable),
  };
}

/** The only namespace whose VMs the node takes; undefined where it takes all. */
export function reservedFor({ metadata }: Node): string | undefined {
  return nonEmpty(metadata.labels?.[labels.namespace]);
}

/** What a node agent has found. */
type Reported = Pick<NodeFacts, 'hostCpu' | 'foundKvm'>;

/** By annotation: nodes of one kind have the same, and so has a node at its next heartbeat. */
const known = new Map<string | undefined, Reported>();
const mostKnown = 1_000;

/** One object for all nodes with the same annotation: the features of a CPU are some 150 words. */
function reportedBy(annotation: string | undefined): Reported {
  const before = known.get(annotation);
  if (before !== undefined) return before;
  if (known.size >= mostKnown) known.clear();
  const reported = { hostCpu: readNodeCpu(annotation), foundKvm: readNodeKvm(annotation) };
  known.set(annotation, reported);
  return reported;
}

/** The tags of a Node (`tag.svc3.dev/<tag>=true`), sorted. */
export function tagsOf(nodeLabels: Readonly<Record<string, string>>): string[] {
  return Object.entries(nodeLabels)
    .filter(([key, value]) => key.startsWith(tagLabelPrefix) && value === 'true')
    .map(([key]) => key.slice(tagLabelPrefix.length))
    .sort();
}

function allocatableOf(list: Readonly<Record<string, string>> | undefined): ResourceVector {
  const vector = emptyVector();
  vector[CPU] = milliAmount(list, 'cpu');
  vector[MEMORY] = wholeAmount(list, 'memory');
  vector[EPHEMERAL_STORAGE] = wholeAmount(list, 'ephemeral-storage');
  vector[PODS] = wholeAmount(list, 'pods');
  vector[GPU] = wholeAmount(list, extendedResources.gpuPassthrough);
  vector[KVM] = wholeAmount(list, extendedResources.kvm);
  return vector;
}

function acceleratorLabel(value: string | undefined): Accelerator | undefined {
  return value === 'kvm' || value === 'tcg' ? value : undefined;
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value;
}
