import type { Container, Pod } from '../api/core.ts';
import { countedSpec, isSidecar } from '../api/countedspec.ts';
import { extendedResources, labels, namespaces } from '../api/meta.ts';
import { mostCounted } from '../api/quantity.ts';
import type { Labels } from '../api/selector.ts';
import { milliAmount, wholeAmount } from './amount.ts';
import type { Neighbour, PodFacts, PodTerm } from './facts.ts';
import type { HostPort } from './ports.ts';
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

/**
 * What placement counts of a pod; undefined for one that has ended or that is on no node. The pod that the operator made
 * for a VM counts before kube-scheduler has bound it: its node is decided. Any other pod may name a node without ever
 * getting there, so that only a bound one counts.
 * @param assumedAs - what its node was assumed under: the UID of the live VM that the pod was made for, or the key of a pool's pod
 */
export function podFacts(pod: Pod, assumedAs?: string): PodFacts | undefined {
  const node = assumedAs === undefined ? pod.spec.nodeName : nodeOf(pod);
  const phase = pod.status?.phase;
  if (node === undefined || phase === 'Succeeded' || phase === 'Failed') return undefined;
  return {
    uid: pod.metadata.uid,
    node,
    assumedAs,
    requests: requestsOf(countedSpec(pod)),
    ports: hostPortsOf(pod),
    neighbour: neighbourOf(pod),
    isNodeAgent: isNodeAgent(pod),
  };
}

/** Nobody but administrators makes pods in that namespace. */
function isNodeAgent({ metadata }: Pod): boolean {
  return metadata.namespace === namespaces.node && metadata.labels?.[labels.component] === 'node-agent';
}

/** The node a pod is on, or the one that its required affinity names by `matchFields`. */
export function nodeOf(pod: Pod): string | undefined {
  return pod.spec.nodeName ?? pinnedNode(pod);
}

/** The node that the required affinity of a pod names by `matchFields`, as one does that is made for a node that placement has chosen. */
export function pinnedNode(pod: Pod): string | undefined {
  const terms =
    pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  if (terms?.length !== 1) return undefined;
  const field = terms[0]?.matchFields?.find(
    ({ key, operator }) => key === 'metadata.name' && operator === 'In',
  );
  return field?.values?.length === 1 ? field.values[0] : undefined;
}

const noLabels: Labels = {};
const repelsNobody: readonly PodTerm[] = [];

/** Terms that reach other namespaces are left to kube-scheduler, which sees those namespaces' labels. */
function neighbourOf({ metadata, spec }: Pod): Neighbour {
  const { namespace, labels: own = noLabels } = metadata;
  const terms = spec.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const repels = terms?.filter(
    (term) => term.namespaces === undefined && term.namespaceSelector === undefined,
  );
  return { namespace, labels: own, repels: repels ?? repelsNobody };
}

/**
 * As kube-scheduler counts: the containers together, or the largest moment of the start; in their place what is asked for of the pod as a whole;
 * plus the overhead; of nothing more than `mostCounted`.
 */
function requestsOf(spec: Pod['spec']): ResourceVector {
  const running = emptyVector();
  for (const container of spec.containers) addList(running, container.resources?.requests);
  running[PODS] = 1;
  if (spec.initContainers !== undefined) raiseToStart(running, spec.initContainers);
  putPodLevel(running, spec.resources?.requests);
  addList(running, spec.overhead);
  return running.map((amount) => Math.min(amount, mostCounted));
}

/** Of what placement counts a pod can ask for these as a whole (PodLevelResources). */
function putPodLevel(into: ResourceVector, list: Readonly<Record<string, string>> | undefined): void {
  if (list?.['cpu'] !== undefined) into[CPU] = milliAmount(list, 'cpu');
  if (list?.['memory'] !== undefined) into[MEMORY] = wholeAmount(list, 'memory');
}

/** The largest moment of the start; sidecars run on. */
function raiseToStart(running: ResourceVector, initContainers: readonly Container[]): void {
  const starting = emptyVector();
  const sidecars = emptyVector();
  for (const container of initContainers) {
    const own = emptyVector();
    addList(own, container.resources?.requests);
    if (isSidecar(container)) {
      add(running, own);
      add(sidecars, own);
    } else {
      add(own, sidecars);
      raise(starting, own);
    }
  }
  raise(running, starting);
}

function addList(into: ResourceVector, list: Readonly<Record<string, string>> | undefined): void {
  into[CPU] = (into[CPU] as number) + milliAmount(list, 'cpu');
  into[MEMORY] = (into[MEMORY] as number) + wholeAmount(list, 'memory');
  into[EPHEMERAL_STORAGE] = (into[EPHEMERAL_STORAGE] as number) + wholeAmount(list, 'ephemeral-storage');
  into[GPU] = (into[GPU] as number) + wholeAmount(list, extendedResources.gpuPassthrough);
  into[KVM] = (into[KVM] as number) + wholeAmount(list, extendedResources.kvm);
}

function add(into: ResourceVector, amounts: ResourceVector): void {
  amounts.forEach((amount, i) => (into[i] = (into[i] as number) + amount));
}

function raise(into: ResourceVector, amounts: ResourceVector): void {
  amounts.forEach((amount, i) => (into[i] = Math.max(into[i] as number, amount)));
}

/** As kube-scheduler counts: those of containers and sidecars. */
function hostPortsOf({ spec }: Pod): HostPort[] {
  const ports: HostPort[] = [];
  for (const container of [...spec.containers, ...(spec.initContainers ?? []).filter(isSidecar)])
    for (const { hostPort, containerPort, protocol } of container.ports ?? []) {
      const port = hostPort ?? (spec.hostNetwork === true ? containerPort : undefined);
      if (port !== undefined && port !== 0)
        ports.push({ port, protocol: protocol === 'UDP' ? 'UDP' : 'TCP' });
    }
  return ports;
}
