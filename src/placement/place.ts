import { type AffinityRequest, AffinityRules, neighbourOf } from './affinity.ts';
import type { Accelerator, ClassFacts } from './facts.ts';
import type { Inventory, NodeClass, NodeState, Usage } from './inventory.ts';
import {
  type AssignedPorts,
  assignPorts,
  dimensionsOfPort,
  type HostPort,
  type PortRanges,
  type PortService,
  serviceDimension,
} from './ports.ts';
import { reasons, reasonsOfMissing, refusalSentence } from './reasons.ts';
import {
  CPU,
  emptyVector,
  EPHEMERAL_STORAGE,
  GPU,
  KVM,
  MEMORY,
  missing,
  type Need,
  needOf,
  PODS,
  type ResourceVector,
} from './resources.ts';
import { coldReason, type MemoryRequest } from './warmstart.ts';
import { softTaints, type Toleration, toleratesAll } from './taints.ts';

/** What one VM asks of a node. */
export interface PlacementRequest extends AffinityRequest {
  /** Undefined where the image's architecture is not known: any. */
  readonly architecture: string | undefined;
  readonly cpuMilli: number;
  readonly memoryBytes: number;
  /** What the emulator takes on top where the node has no hardware virtualisation. */
  readonly emulationBytes: number;
  readonly ephemeralStorageBytes: number;
  /** Asks for the node's bundle of GPU cards (x86 only; ARM VMs need none). */
  readonly gpu: boolean;
  readonly accelerator: 'auto' | Accelerator;
  readonly nodeName: string | undefined;
  readonly tag: string | undefined;
  /** Without it the tag is only preferred. */
  readonly tagRequired: boolean;
  /** Fullest node first instead of freest. */
  readonly packed: boolean;
  readonly tolerations: readonly Toleration[];
  readonly services: readonly PortService[];
  readonly reservedPorts: readonly HostPort[];
  /** What the guest may go on from instead of booting: nodes that it fits are preferred. */
  readonly memory?: MemoryRequest | undefined;
  /** Nodes that have just turned the pod away: not chosen, although they pass every filter. */
  readonly avoid?: ReadonlySet<string>;
}

export interface Placed {
  readonly kind: 'placed';
  readonly node: string;
  readonly accelerator: Accelerator;
  readonly ports: AssignedPorts;
  /** False where the kubelet does not manage local storage: the pod must not request any. */
  readonly requestsEphemeralStorage: boolean;
  /** What to assume until the pod is seen. */
  readonly usage: Usage;
}

export interface Refused {
  readonly kind: 'refused';
  /** kube-scheduler's sentence: condition, API error and CLI show the same. */
  readonly message: string;
  readonly counts: ReadonlyMap<string, number>;
}

/** A class and how good it is before looking at what is free, less being better: the requested tag first, then the fewest soft taints, then the memory. */
interface Candidate {
  readonly class: NodeClass;
  readonly rank: number;
}

/** Filter, score, tie-break: the same inventory and request always give the same node. Does not reserve anything; call `inventory.assume`. */
export function place(inventory: Inventory, request: PlacementRequest): Placed | Refused {
  const needs = createNeeds(request, inventory.ranges);
  const accepts = (state: NodeState): boolean =>
    request.avoid?.has(state.name) !== true && portsOn(inventory, state, request) !== undefined;
  const affinity = affinityRules(inventory, request);
  const judge = { needs, accepts, affinity };
  if (request.nodeName !== undefined) return placeOnNamed(inventory, request, judge);
  if (affinity !== undefined) return placeByAffinity(inventory, request, { ...judge, affinity });
  return placeByClass(inventory, request, judge);
}

/**
 * Nodes of one class differ only in what is free on them, which the class's tree answers without a look at each: the cost of a decision
 * grows with the number of classes, and hardly with that of nodes.
 */
function placeByClass(inventory: Inventory, request: PlacementRequest, judge: Judge): Placed | Refused {
  const counts = new Map<string, number>();
  const candidates = candidatesOf(inventory, request, counts);
  const best = bestOf(candidates, request, judge);
  if (best !== undefined) return placedOn(inventory, best, request);
  // Counted only now: a refusal is shown to people, and has to name every node; most decisions are none.
  for (const candidate of candidates) countMissing(inventory, candidate.class, request, judge.needs, counts);
  return refused(inventory, counts);
}

/** The classes that nothing excludes, best rank first; the nodes of the others are counted by reason. */
function candidatesOf(
  inventory: Inventory,
  request: PlacementRequest,
  counts: Map<string, number>,
): Candidate[] {
  const candidates: Candidate[] = [];
  for (const nodeClass of inventory.classes()) {
    const reason = excludes(nodeClass.facts, request);
    if (reason === undefined)
      candidates.push({ class: nodeClass, rank: fullRankOf(nodeClass.facts, request) });
    else add(counts, reason, nodeClass.tree.size);
  }
  return candidates.sort((a, b) => a.rank - b.rank);
}

/** The best node that fits, of the best rank in which there is one: a worse rank is never looked at for the sake of a better score. */
function bestOf(
  candidates: readonly Candidate[],
  { packed }: PlacementRequest,
  { needs, accepts }: Judge,
): NodeState | undefined {
  let best: NodeState | undefined;
  let rank = Number.POSITIVE_INFINITY;
  for (const candidate of candidates) {
    if (best !== undefined && candidate.rank > rank) break;
    const found = candidate.class.tree.first(needs(candidate.class.facts), packed, accepts);
    if (found === undefined || (best !== undefined && !isBetter(found, best, packed))) continue;
    best = found;
    rank = candidate.rank;
  }
  return best;
}

/** Whether the decision depends on labels: by affinity or spread constraints of this VM, or anti-affinity of pods that are there. */
export function hasAffinity(inventory: Inventory, request: AffinityRequest): boolean {
  const { affinity, topologySpreadConstraints, namespace } = request;
  return affinity !== undefined || topologySpreadConstraints.length > 0 || inventory.hasRepelling(namespace);
}

/** Undefined where the decision does not depend on labels. */
export function affinityRules(inventory: Inventory, request: AffinityRequest): AffinityRules | undefined {
  return hasAffinity(inventory, request) ? new AffinityRules(inventory, request) : undefined;
}

/** Nodes differ in their labels, so each is looked at: tag and soft taints first, then what affinity prefers, then the memory, then what is free. */
function placeByAffinity(
  inventory: Inventory,
  request: PlacementRequest,
  judge: Judge & { affinity: AffinityRules },
): Placed | Refused {
  const counts = new Map<string, number>();
  const fitting: NodeState[] = [];
  let rank = Number.POSITIVE_INFINITY;
  for (const state of inventory.nodes()) {
    const { facts } = state.class as NodeClass;
    const verdict = verdictOn(state, facts, request, judge);
    for (const reason of verdict) add(counts, reason, 1);
    const own = rankOf(facts, request);
    if (verdict.length > 0 || own > rank) continue;
    if (own < rank) fitting.length = 0;
    rank = own;
    fitting.push(state);
  }
  const preferences = judge.affinity.preferences(fitting);
  const most = Math.max(...preferences);
  const equal = fitting.filter((_, i) => preferences[i] === most);
  const warm = equal.filter((state) => !isCold((state.class as NodeClass).facts, request));
  const [best] = (warm.length > 0 ? warm : equal).toSorted((a, b) =>
    isBetter(a, b, request.packed) ? -1 : 1,
  );
  return best === undefined ? refused(inventory, counts) : placedOn(inventory, best, request);
}

function placeOnNamed(inventory: Inventory, request: PlacementRequest, judge: Judge): Placed | Refused {
  const counts = new Map<string, number>();
  const state = inventory.node(request.nodeName ?? '');
  const others = inventory.size - (state === undefined ? 0 : 1);
  if (others > 0) counts.set(reasons.nodeName, others);
  if (state?.class === undefined) return refused(inventory, counts);
  const verdict = verdictOn(state, state.class.facts, request, judge);
  if (verdict.length === 0) return placedOn(inventory, state, request);
  for (const reason of verdict) counts.set(reason, 1);
  return refused(inventory, counts);
}

function refused(inventory: Inventory, counts: ReadonlyMap<string, number>): Refused {
  return { kind: 'refused', message: refusalSentence(inventory.size, counts), counts };
}

/** What is looked at on a node, beside its class. */
export interface Judge {
  readonly needs: Needs;
  accepts(state: NodeState): boolean;
  readonly affinity: AffinityRules | undefined;
}

/** Why this one node is refused; empty when it fits. */
export function verdictOn(
  state: NodeState,
  facts: ClassFacts,
  request: PlacementRequest,
  { needs, accepts, affinity }: Judge,
): string[] {
  const excluded = excludes(facts, request) ?? affinity?.refusesNode(state);
  if (excluded !== undefined) return [excluded];
  if (!accepts(state)) return [reasons.ports];
  const lacking = missing(state.free, needs(facts));
  if (lacking !== 0) return reasonsOfMissing(lacking);
  const refused = affinity?.refusesPods(state);
  return refused === undefined ? [] : [refused];
}

/** The first reason, in kube-scheduler's order of filters, why no node of this class is a candidate. */
function excludes(facts: ClassFacts, request: PlacementRequest): string | undefined {
  if (facts.cordoned) return reasons.unschedulable;
  if (!facts.ready) return reasons.notReady;
  return excludesForGood(facts, request) ?? awaits(facts, request);
}

/** The same for what does not pass by itself. */
export function excludesForGood(facts: ClassFacts, request: PlacementRequest): string | undefined {
  if (!toleratesAll(facts.taints, request.tolerations)) return reasons.taints;
  if (facts.operatingSystem !== 'linux') return reasons.operatingSystem;
  if (request.architecture !== undefined && facts.architecture !== request.architecture)
    return reasons.architecture(request.architecture);
  if (facts.reservedFor !== undefined && facts.reservedFor !== request.namespace) return reasons.reserved;
  if (request.tag !== undefined && request.tagRequired && !facts.tags.includes(request.tag))
    return reasons.tag(request.tag);
  if (request.gpu && !facts.gpuEnabled) return reasons.gpuDisabled;
  if (request.gpu && !facts.hasGpu) return reasons.gpuMissing;
  if (acceleratorOn(facts, request) === 'kvm' && facts.kvm === 'None') return reasons.noKvm;
  return undefined;
}

/** A pod keeps its accelerator as long as it lives: a node whose kvm device or report is due is waited for. */
export function awaits(facts: ClassFacts, request: PlacementRequest): string | undefined {
  if ((facts.accelerator ?? request.accelerator) === 'tcg') return undefined;
  if (facts.kvm === 'Found') return reasons.kvmMissing;
  return facts.kvm === 'Unknown' ? reasons.kvmUnknown : undefined;
}

/**
 * By tag and soft taints. The tag outweighs all soft taints: no node has a thousand of them. Placement by affinity uses this one: there, what affinity
 * prefers stands between it and the memory, so it asks for the memory afterwards, among the nodes that affinity prefers equally.
 */
function rankOf(facts: ClassFacts, request: PlacementRequest): number {
  const untagged = request.tag !== undefined && !facts.tags.includes(request.tag);
  return softTaints(facts.taints, request.tolerations) + (untagged ? 1_000 : 0);
}

/** The same, and the memory last: what people ask for comes before what only makes a start faster. */
function fullRankOf(facts: ClassFacts, request: PlacementRequest): number {
  return 2 * rankOf(facts, request) + (isCold(facts, request) ? 1 : 0);
}

function isCold(facts: ClassFacts, request: PlacementRequest): boolean {
  return request.memory !== undefined && coldReasonOn(facts, request, request.memory) !== undefined;
}

/** Why the guest would boot on such a node; undefined where it would go on from the memory. */
export function coldReasonOn(
  facts: ClassFacts,
  request: PlacementRequest,
  memory: MemoryRequest,
): string | undefined {
  return coldReason(memory, { accelerator: acceleratorOn(facts, request), hostCpu: facts.hostCpu });
}

/** The node's label, else the chart's setting, else whether the node is known to have hardware virtualisation. */
export function acceleratorOn(facts: ClassFacts, request: PlacementRequest): Accelerator {
  if (facts.accelerator !== undefined) return facts.accelerator;
  if (request.accelerator !== 'auto') return request.accelerator;
  return facts.kvm === 'Ready' || facts.kvm === 'Found' ? 'kvm' : 'tcg';
}

/** What is needed differs by class only through the accelerator: two vectors per decision. */
type Needs = (facts: ClassFacts) => Need;

/** What the request needs on nodes of a class, made once for each accelerator. */
export function createNeeds(request: PlacementRequest, ranges: PortRanges): Needs {
  const made: Partial<Record<Accelerator, Need>> = {};
  return (facts) => {
    const accelerator = acceleratorOn(facts, request);
    return (made[accelerator] ??= needOf(requestsOn(request, accelerator, ranges)));
  };
}

function requestsOn(request: PlacementRequest, accelerator: Accelerator, ranges: PortRanges): ResourceVector {
  const vector = emptyVector();
  vector[CPU] = request.cpuMilli;
  vector[MEMORY] = request.memoryBytes + (accelerator === 'tcg' ? request.emulationBytes : 0);
  vector[EPHEMERAL_STORAGE] = request.ephemeralStorageBytes;
  vector[PODS] = 1;
  vector[GPU] = request.gpu ? 1 : 0;
  vector[KVM] = accelerator === 'kvm' ? 1 : 0;
  for (const service of request.services)
    if (ranges[service] !== undefined) addTo(vector, serviceDimension[service]);
  // A reserved port that lies in a service's range leaves one less for the service.
  for (const port of request.reservedPorts)
    for (const dimension of dimensionsOfPort(ranges, port)) addTo(vector, dimension);
  return vector;
}

function addTo(vector: ResourceVector, dimension: number): void {
  vector[dimension] = (vector[dimension] as number) + 1;
}

function isBetter(a: NodeState, b: NodeState, packed: boolean): boolean {
  if (a.score !== b.score) return packed ? a.score < b.score : a.score > b.score;
  return packed ? a.name > b.name : a.name < b.name;
}

/**
 * The ports of the node that the VM would get: of each service that it asks for the first free one, beside its reserved ports; undefined where one of the
 * reserved ports is taken, or a service has none left.
 */
export function portsOn(
  inventory: Inventory,
  state: NodeState,
  request: PlacementRequest,
): AssignedPorts | undefined {
  return assignPorts(inventory.ranges, state.usedPorts, request.services, request.reservedPorts);
}

/** The decision for a node that is known and was accepted: its ports are free. */
function placedOn(inventory: Inventory, state: NodeState, request: PlacementRequest): Placed {
  const { facts } = state.class as NodeClass;
  const ports = portsOn(inventory, state, request) as AssignedPorts;
  const accelerator = acceleratorOn(facts, request);
  const assigned = Object.values(ports).map((port) => ({ port, protocol: 'TCP' as const }));
  return {
    kind: 'placed',
    node: state.name,
    accelerator,
    ports,
    requestsEphemeralStorage: facts.reportsEphemeralStorage,
    usage: {
      node: state.name,
      requests: requestsOn(request, accelerator, inventory.ranges),
      ports: [...assigned, ...request.reservedPorts],
      neighbour: neighbourOf(request),
    },
  };
}

/** Adds the nodes of a class in which nothing fits, by reason; a reserved port that is taken comes before resources. */
function countMissing(
  inventory: Inventory,
  nodeClass: NodeClass,
  request: PlacementRequest,
  needs: Needs,
  counts: Map<string, number>,
): void {
  const need = needs(nodeClass.facts);
  const masks = new Map<number, number>();
  nodeClass.tree.countMissing(need, masks);
  const taken = new Set<NodeState>();
  for (const port of request.reservedPorts)
    for (const state of inventory.usersOf(port)) if (state.class === nodeClass) taken.add(state);
  // The tree counted these by what they lack; they are counted by their taken port instead.
  for (const state of taken) {
    const mask = missing(state.free, need);
    masks.set(mask, (masks.get(mask) as number) - 1);
  }
  add(counts, reasons.ports, taken.size);
  for (const [mask, nodes] of masks) for (const reason of reasonsOfMissing(mask)) add(counts, reason, nodes);
}

function add(counts: Map<string, number>, reason: string, nodes: number): void {
  if (nodes > 0) counts.set(reason, (counts.get(reason) ?? 0) + nodes);
}
