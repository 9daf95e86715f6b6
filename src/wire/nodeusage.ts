import type { Pod } from '../api/core.ts';
import { countedSpec, isSidecar } from '../api/countedspec.ts';
import { extendedResources } from '../api/meta.ts';
import { mostCounted, parseMilli, parseQuantity } from '../api/quantity.ts';
import { noUsage, type NodeUsage } from './node.ts';
import type { KubeObject } from '../api/object.ts';
import type { Informer } from '../kube/types.ts';

/** A pod as the cache keeps it: where it runs and what it requested. */
export interface PodRequests extends KubeObject {
  usage?: NodeUsage;
  node?: string;
}

export interface NodeUsages {
  of(node: string): NodeUsage;
}

function requestOf(requests: Readonly<Record<string, string>> | undefined): NodeUsage {
  return {
    cpuMilli: Number(parseMilli(requests?.['cpu'] ?? '0', 'cpu')),
    memoryBytes: parseQuantity(requests?.['memory'] ?? '0', 'memory'),
    gpus: parseQuantity(requests?.[extendedResources.gpuPassthrough] ?? '0', 'gpu'),
  };
}

function sum(a: NodeUsage, b: NodeUsage, sign: 1 | -1 = 1): NodeUsage {
  return {
    cpuMilli: a.cpuMilli + sign * b.cpuMilli,
    memoryBytes: a.memoryBytes + sign * b.memoryBytes,
    gpus: a.gpus + sign * b.gpus,
  };
}

function largest(a: NodeUsage, b: NodeUsage): NodeUsage {
  return {
    cpuMilli: Math.max(a.cpuMilli, b.cpuMilli),
    memoryBytes: Math.max(a.memoryBytes, b.memoryBytes),
    gpus: Math.max(a.gpus, b.gpus),
  };
}

function atMostCounted({ cpuMilli, memoryBytes, gpus }: NodeUsage): NodeUsage {
  return {
    cpuMilli: Math.min(cpuMilli, mostCounted),
    memoryBytes: Math.min(memoryBytes, mostCounted),
    gpus: Math.min(gpus, mostCounted),
  };
}

/** The transform of the pods' informer: keeps what a node's list needs. A finished pod requests nothing. */
export function keepRequests(pod: Pod): PodRequests {
  const { metadata, spec, status } = pod;
  const kept: PodRequests = {
    metadata: {
      name: metadata.name,
      namespace: metadata.namespace,
      uid: metadata.uid,
      resourceVersion: metadata.resourceVersion,
    },
  };
  const finished = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  if (spec.nodeName === undefined || finished) return kept;
  kept.node = spec.nodeName;
  kept.usage = atMostCounted(sum(mostAtOnce(countedSpec(pod)), requestOf(spec.overhead)));
  return kept;
}

/**
 * As kube-scheduler counts: the containers together with the sidecars, or the largest moment of the start; in their place what is asked for of the pod
 * as a whole.
 */
function mostAtOnce(spec: Pod['spec']): NodeUsage {
  const { cpu, memory } = spec.resources?.requests ?? {};
  const asked = requestOf(spec.resources?.requests);
  return {
    ...mostOfContainers(spec),
    ...(cpu === undefined ? {} : { cpuMilli: asked.cpuMilli }),
    ...(memory === undefined ? {} : { memoryBytes: asked.memoryBytes }),
  };
}

function mostOfContainers({ containers, initContainers = [] }: Pod['spec']): NodeUsage {
  let sidecars = noUsage;
  let starting = noUsage;
  for (const container of initContainers) {
    const own = requestOf(container.resources?.requests);
    if (isSidecar(container)) sidecars = sum(sidecars, own);
    else starting = largest(starting, sum(sidecars, own));
  }
  const running = containers
    .map(({ resources }) => requestOf(resources?.requests))
    .reduce((a, b) => sum(a, b), sidecars);
  return largest(running, starting);
}

/** Keeps the sums per node true with each change; nothing is summed per request. */
export function createNodeUsages(pods: Informer<PodRequests>): NodeUsages {
  const usages = new Map<string, NodeUsage>();
  function add(pod: PodRequests, sign: 1 | -1): void {
    if (pod.node === undefined || pod.usage === undefined) return;
    usages.set(pod.node, sum(usages.get(pod.node) ?? noUsage, pod.usage, sign));
  }
  pods.onChange((change) => {
    if (change.kind === 'deleted') return add(change.object, -1);
    if (change.kind === 'updated') add(change.old, -1);
    return add(change.object, 1);
  });
  return { of: (node) => usages.get(node) ?? noUsage };
}
