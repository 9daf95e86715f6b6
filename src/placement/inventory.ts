import type { ClassFacts, KvmState, Neighbour, NodeFacts, PodFacts } from './facts.ts';
import { type Entry, NodeTree } from './nodetree.ts';
import { dimensionsOfPort, type HostPort, portCapacity, portKey, type PortRanges } from './ports.ts';
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

/** What one pod, or one decision whose pod is not in the cache yet, takes on a node. */
export interface Usage {
  readonly node: string;
  readonly requests: ResourceVector;
  readonly ports: readonly HostPort[];
  /** Absent for what takes room only. */
  readonly neighbour?: Neighbour;
  readonly isNodeAgent?: boolean;
}

/** Whether a pod is as it was, has given something back, or is new or otherwise another. */
export type PodChange = 'same' | 'less' | 'other';

/** Nodes that placement cannot tell apart except by name and by what is free on them. */
export interface NodeClass {
  readonly facts: ClassFacts;
  readonly tree: NodeTree<NodeState>;
}

export interface NodeState extends Entry {
  score: number;
  /** Undefined while the Node is not known (its pods may be seen first). */
  facts: NodeFacts | undefined;
  class: NodeClass | undefined;
  capacity: ResourceVector;
  readonly used: ResourceVector;
  readonly usedPorts: Map<string, number>;
  /** Pods of the node agent. */
  agents: number;
}

/**
 * What is free on which node, kept by events so that a decision scans nothing. Events may come in any order, twice,
 * or for nodes that are not known yet. Synchronous and without a clock.
 */
export class Inventory {
  readonly ranges: PortRanges;
  readonly #nodes = new Map<string, NodeState>();
  readonly #classes = new Map<string, NodeClass>();
  readonly #pods = new Map<string, Usage>();
  readonly #assumed = new Map<string, Usage>();
  readonly #portUsers = new Map<string, Set<NodeState>>();
  readonly #neighbours = new Map<string, Set<Usage>>();
  /** Namespace -> how many of its pods and decisions have required anti-affinity. */
  readonly #repelling = new Map<string, number>();
  readonly #dirty = new Set<NodeState>();
  #known = 0;

  constructor(ranges: PortRanges) {
    this.ranges = ranges;
  }

  /** Number of nodes known. */
  get size(): number {
    return this.#known;
  }

  setNode(facts: NodeFacts): void {
    const state = this.#state(facts.name);
    if (state.facts === undefined) this.#known++;
    this.#unlink(state);
    state.facts = facts;
    state.capacity = capacityOf(facts, this.ranges);
    this.#dirty.add(state);
  }

  removeNode(name: string): void {
    const state = this.#nodes.get(name);
    if (state?.facts === undefined) return;
    this.#known--;
    this.#unlink(state);
    state.facts = undefined;
    this.#dropIfUnused(state);
  }

  /** A pod that is bound to a node, or a VM's that is pinned on one; ends the assumption made for its VM. */
  setPod(pod: PodFacts): PodChange {
    if (pod.assumedAs !== undefined) this.forget(pod.assumedAs);
    const old = this.#pods.get(pod.uid);
    if (old !== undefined) {
      if (sameUsage(old, pod)) return 'same';
      this.#release(old);
    }
    const { node, requests, ports, neighbour, isNodeAgent } = pod;
    const usage = { node, requests, ports, neighbour, isNodeAgent };
    this.#pods.set(pod.uid, usage);
    this.#take(usage);
    const isLess = old?.requests.some((amount, i) => amount > (requests[i] as number)) === true;
    return isLess ? 'less' : 'other';
  }

  /** The pod is gone or has ended (`Succeeded`, `Failed`). Says whether it had been counted. */
  removePod(uid: string): boolean {
    const usage = this.#pods.get(uid);
    if (usage === undefined) return false;
    this.#pods.delete(uid);
    this.#release(usage);
    return true;
  }

  /** What is decided as if these pods were gone; of those that are not counted nothing is. */
  without<T>(uids: readonly string[], decide: () => T): T {
    const left = uids.flatMap((uid) => this.#pods.get(uid) ?? []);
    for (const usage of left) this.#release(usage);
    try {
      return decide();
    } finally {
      for (const usage of left) this.#take(usage);
    }
  }

  /**
   * Counts a decision at once, until its pod is seen (`PodFacts.assumedAs`) or the decision is forgotten.
   * @param key - UID of the VM; of a guest of a pool the key of its pod
   */
  assume(key: string, usage: Usage): void {
    this.forget(key);
    this.#assumed.set(key, usage);
    this.#take(usage);
  }

  forget(key: string): void {
    const usage = this.#assumed.get(key);
    if (usage === undefined) return;
    this.#assumed.delete(key);
    this.#release(usage);
  }

  /** All classes, with every event so far taken in. */
  classes(): Iterable<NodeClass> {
    this.#applyChanges();
    return this.#classes.values();
  }

  node(name: string): NodeState | undefined {
    this.#applyChanges();
    const state = this.#nodes.get(name);
    return state?.facts === undefined ? undefined : state;
  }

  /** Every known node, for explanations; decisions never walk this. */
  nodes(): NodeState[] {
    this.#applyChanges();
    return [...this.#nodes.values()].filter((state) => state.facts !== undefined);
  }

  /** The nodes on which somebody uses this host port. */
  usersOf(port: HostPort): ReadonlySet<NodeState> {
    return this.#portUsers.get(portKey(port)) ?? noNodes;
  }

  /** The pods and decisions of a namespace. */
  neighboursIn(namespace: string): Iterable<Usage> {
    return this.#neighbours.get(namespace) ?? noUsages;
  }

  /** Whether any of them has required anti-affinity. */
  hasRepelling(namespace: string): boolean {
    return (this.#repelling.get(namespace) ?? 0) > 0;
  }

  #state(name: string): NodeState {
    let state = this.#nodes.get(name);
    if (state === undefined) {
      state = {
        name,
        score: 0,
        free: emptyVector(),
        facts: undefined,
        class: undefined,
        capacity: emptyVector(),
        used: emptyVector(),
        usedPorts: new Map(),
        agents: 0,
      };
      this.#nodes.set(name, state);
    }
    return state;
  }

  #take(usage: Usage): void {
    this.#count(this.#state(usage.node), usage, 1);
    if (usage.neighbour === undefined) return;
    const { namespace, repels } = usage.neighbour;
    const known = this.#neighbours.get(namespace);
    if (known === undefined) this.#neighbours.set(namespace, new Set([usage]));
    else known.add(usage);
    if (repels.length > 0) this.#repelling.set(namespace, (this.#repelling.get(namespace) ?? 0) + 1);
  }

  #release(usage: Usage): void {
    const state = this.#state(usage.node);
    this.#count(state, usage, -1);
    this.#dropIfUnused(state);
    if (usage.neighbour === undefined) return;
    const { namespace, repels } = usage.neighbour;
    const known = this.#neighbours.get(namespace);
    known?.delete(usage);
    if (known?.size === 0) this.#neighbours.delete(namespace);
    if (repels.length > 0) this.#repelling.set(namespace, (this.#repelling.get(namespace) ?? 0) - 1);
  }

  #count(state: NodeState, usage: Usage, sign: 1 | -1): void {
    const { used } = state;
    for (let i = 0; i <= KVM; i++) used[i] = (used[i] as number) + sign * (usage.requests[i] as number);
    for (const port of usage.ports) this.#countPort(state, port, sign);
    if (usage.isNodeAgent === true) this.#countAgent(state, sign);
    this.#dirty.add(state);
  }

  /** A node agent that comes or goes may change the class of its node (`KvmState`). */
  #countAgent(state: NodeState, sign: 1 | -1): void {
    state.agents += sign;
    this.#unlink(state);
  }

  #countPort(state: NodeState, port: HostPort, sign: 1 | -1): void {
    const key = portKey(port);
    const before = state.usedPorts.get(key) ?? 0;
    const after = before + sign;
    if (before !== 0 && after !== 0) {
      state.usedPorts.set(key, after);
      return;
    }
    for (const dimension of dimensionsOfPort(this.ranges, port))
      state.used[dimension] = (state.used[dimension] as number) + sign;
    let users = this.#portUsers.get(key);
    if (after === 0) {
      state.usedPorts.delete(key);
      users?.delete(state);
      if (users?.size === 0) this.#portUsers.delete(key);
      return;
    }
    state.usedPorts.set(key, after);
    if (users === undefined) this.#portUsers.set(key, (users = new Set()));
    users.add(state);
  }

  #unlink(state: NodeState): void {
    if (state.class === undefined) return;
    state.class.tree.remove(state);
    if (state.class.tree.size === 0) this.#classes.delete(keyOf(state.class.facts));
    state.class = undefined;
  }

  /** Moves the nodes that changed into their class and place in its tree; many events on a node cost one move. */
  #applyChanges(): void {
    for (const state of this.#dirty) {
      // Not known, or not any more: what is used there waits for the Node.
      if (state.facts === undefined) continue;
      const nodeClass = state.class ?? this.#classOf(classFacts(state.facts, state.agents > 0));
      if (state.class !== undefined) nodeClass.tree.remove(state);
      state.free = state.capacity.map((amount, i) => amount - (state.used[i] as number));
      state.score = freeFraction(state);
      state.class = nodeClass;
      nodeClass.tree.insert(state);
    }
    this.#dirty.clear();
  }

  #classOf(facts: ClassFacts): NodeClass {
    const key = keyOf(facts);
    let nodeClass = this.#classes.get(key);
    if (nodeClass === undefined) {
      nodeClass = { facts, tree: new NodeTree<NodeState>() };
      this.#classes.set(key, nodeClass);
    }
    return nodeClass;
  }

  #dropIfUnused(state: NodeState): void {
    if (state.facts === undefined && state.used[PODS] === 0) this.#nodes.delete(state.name);
  }
}

const noNodes: ReadonlySet<NodeState> = new Set();
const noUsages: readonly Usage[] = [];

/** A bundle is all cards of a node: whatever a device plugin advertises, a node has at most one (spec: Limits). */
function capacityOf(facts: NodeFacts, ranges: PortRanges): ResourceVector {
  const capacity = [...facts.allocatable];
  capacity[GPU] = Math.min(1, capacity[GPU] as number);
  if (!facts.reportsEphemeralStorage) capacity[EPHEMERAL_STORAGE] = Number.POSITIVE_INFINITY;
  portCapacity(ranges, capacity);
  return capacity;
}

function freeFraction({ capacity, free }: NodeState): number {
  const part = (of: number): number =>
    capacity[of] === 0 ? 0 : (free[of] as number) / (capacity[of] as number);
  return (part(CPU) + part(MEMORY)) / 2;
}

function classFacts(node: NodeFacts, hasAgent: boolean): ClassFacts {
  const { name: _name, labels: _labels, foundKvm: _foundKvm, allocatable, ...facts } = node;
  return {
    ...facts,
    tags: [...facts.tags].sort(),
    hasGpu: (allocatable[GPU] as number) > 0,
    kvm: kvmOf(node, hasAgent),
  };
}

function kvmOf({ allocatable, foundKvm }: NodeFacts, hasAgent: boolean): KvmState {
  if ((allocatable[KVM] as number) > 0) return 'Ready';
  if (foundKvm === true) return 'Found';
  return foundKvm === undefined && hasAgent ? 'Unknown' : 'None';
}

function keyOf(facts: ClassFacts): string {
  return JSON.stringify([
    facts.operatingSystem,
    facts.architecture,
    facts.ready,
    facts.cordoned,
    facts.taints.map((taint) => [taint.key, taint.value ?? '', taint.effect]),
    facts.tags,
    facts.reservedFor ?? null,
    facts.gpuEnabled,
    facts.accelerator ?? null,
    facts.reportsEphemeralStorage,
    facts.hasGpu,
    facts.kvm,
    facts.hostCpu === undefined ? null : [facts.hostCpu.model, facts.hostCpu.flags],
  ]);
}

function sameUsage(a: Usage, b: Usage): boolean {
  return (
    a.node === b.node &&
    sameNeighbour(a.neighbour, b.neighbour) &&
    a.requests.every((amount, i) => amount === b.requests[i]) &&
    a.ports.length === b.ports.length &&
    a.ports.every((port, i) => port.port === b.ports[i]?.port && port.protocol === b.ports[i]?.protocol)
  );
}

function sameNeighbour(a: Neighbour | undefined, b: Neighbour | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const keys = Object.keys(a.labels);
  return (
    a.namespace === b.namespace &&
    keys.length === Object.keys(b.labels).length &&
    keys.every((key) => a.labels[key] === b.labels[key]) &&
    a.repels.length === b.repels.length &&
    (a.repels.length === 0 || JSON.stringify(a.repels) === JSON.stringify(b.repels))
  );
}
