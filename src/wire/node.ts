import { annotations, extendedResources, labels, tagLabelPrefix } from '../api/meta.ts';
import { parseMilli, parseQuantity } from '../api/quantity.ts';
import type { Node } from '../api/core.ts';
import type { NodeItem } from './schemas.ts';

export type { NodeItem };

/** What the pods of a node have requested. */
export interface NodeUsage {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  readonly gpus: number;
}

export const noUsage: NodeUsage = { cpuMilli: 0, memoryBytes: 0, gpus: 0 };

function gigabytes(bytes: number): string {
  return `${(Math.max(0, bytes) / 1024 ** 3).toFixed(2)}G`;
}

/** A label with another value than `true` is no tag, for placement neither. */
export function tagsOf(node: Node): string[] {
  return Object.entries(node.metadata.labels ?? {})
    .filter(([label, value]) => label.startsWith(tagLabelPrefix) && value === 'true')
    .map(([label]) => label.slice(tagLabelPrefix.length))
    .sort();
}

/** Whether VMs of the namespace may run on the node (names: label `svc3.dev/namespace`). */
export function isNodeOf(node: Node, namespace: string): boolean {
  const reserved = node.metadata.labels?.[labels.namespace];
  return reserved === undefined || reserved === '' || reserved === namespace;
}

function architectureOf(node: Node): string {
  return node.metadata.labels?.['kubernetes.io/arch'] ?? node.status?.nodeInfo?.architecture ?? '';
}

/** Whether its kubelet says so; of a node that is lost it says nothing. */
export function isReady({ status }: Node): boolean {
  return status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True') === true;
}

/** A node in a namespace's list: an unreserved one belongs to the namespace that asks. */
export function nodeItem(node: Node, namespace: string, usage: NodeUsage): NodeItem {
  const allocatable = node.status?.allocatable ?? {};
  const cpuMilli = Number(parseMilli(allocatable['cpu'] ?? '0', 'cpu'));
  const memory = parseQuantity(allocatable['memory'] ?? '0', 'memory');
  const gpus = parseQuantity(allocatable[extendedResources.gpuPassthrough] ?? '0', 'gpu');
  const architecture = architectureOf(node);
  const addresses = node.status?.addresses ?? [];
  const gpuReason = node.metadata.annotations?.[annotations.gpuPassthroughReason];
  return {
    name: node.metadata.name,
    // An empty label reserves nothing.
    namespace: node.metadata.labels?.[labels.namespace] || namespace,
    nodeIP: addresses.find(({ type }) => type === 'InternalIP')?.address ?? '',
    availableCpu: Math.max(0, Math.floor((cpuMilli - usage.cpuMilli) / 1000)),
    availableMemory: gigabytes(memory - usage.memoryBytes),
    availableGpu: Math.max(0, gpus - usage.gpus),
    allocatableCpu: Math.floor(cpuMilli / 1000),
    allocatableMemory: gigabytes(memory),
    allocatableGpu: gpus,
    nodeType: 'WORKER',
    phase: isReady(node) ? 'READY' : 'NOT READY',
    architecture,
    tags: tagsOf(node),
    gpuPassthrough: architecture === 'arm64' || node.metadata.labels?.[labels.gpuPassthrough] === 'enabled',
    ...(gpuReason === undefined ? {} : { gpuPassthroughReason: gpuReason }),
  };
}
