/**
 * Placement as one would write it on a napkin: looks at every node, one after the other, and shares no code with the
 * product. Slow, and obviously right.
 */
import type { Neighbour, NodeFacts } from '../../../src/placement/facts.ts';
import type { PlacementRequest } from '../../../src/placement/place.ts';
import type { PortRanges, PortService } from '../../../src/placement/ports.ts';
import type { Taint } from '../../../src/api/core.ts';
import type { Toleration } from '../../../src/placement/taints.ts';
import { AffinityOracle } from './affinityoracle.ts';

/** What somebody takes on a node: `[cpu, memory, ephemeral storage, pods, gpu, kvm, …]`. */
export interface Taken {
  readonly node: string;
  readonly requests: readonly number[];
  readonly ports: readonly { port: number; protocol: 'TCP' | 'UDP' }[];
  readonly neighbour?: Neighbour;
  readonly isNodeAgent?: boolean;
}

export interface Answer {
  /** The node, or kube-scheduler's sentence. */
  readonly outcome: string;
  readonly accelerator?: string;
  readonly ports?: Readonly<Partial<Record<PortService, number>>>;
}

const names = ['cpu', 'memory', 'ephemeral-storage', 'pods', 'gpu', 'kvm'];

interface Free {
  readonly amounts: number[];
  readonly capacity: number[];
  readonly ports: ReadonlySet<string>;
  readonly hasAgent: boolean;
}

function freeOn(node: NodeFacts, taken: readonly Taken[]): Free {
  const here = taken.filter((one) => one.node === node.name);
  const capacity = names.map((name, i) => {
    if (name === 'gpu') return Math.min(1, node.allocatable[i]!);
    if (name === 'ephemeral-storage' && !node.reportsEphemeralStorage) return Infinity;
    return node.allocatable[i]!;
  });
  return {
    capacity,
    amounts: capacity.map((amount, i) => here.reduce((left, one) => left - one.requests[i]!, amount)),
    ports: new Set(here.flatMap((one) => one.ports.map(({ port, protocol }) => `${port}${protocol}`))),
    hasAgent: here.some(({ isNodeAgent }) => isNodeAgent === true),
  };
}

function matches(toleration: Toleration, taint: Taint): boolean {
  const effect = toleration.effect || taint.effect;
  const key = toleration.key || taint.key;
  if (effect !== taint.effect || key !== taint.key) return false;
  if (toleration.operator === 'Exists') return true;
  return Boolean(toleration.key) && (toleration.value || '') === (taint.value || '');
}

const hard = ({ effect, key }: Taint): boolean => {
  if (effect === 'NoExecute') return !/^node\.kubernetes\.io\/(not-ready|unreachable)$/.test(key);
  return effect === 'NoSchedule' && key !== 'node.kubernetes.io/unschedulable';
};

function acceleratorOn(node: NodeFacts, request: PlacementRequest): string {
  if (node.accelerator !== undefined) return node.accelerator;
  if (request.accelerator !== 'auto') return request.accelerator;
  return node.allocatable[5]! > 0 || node.foundKvm === true ? 'kvm' : 'tcg';
}

/** The first free port of each service's range; undefined where one has none or a reserved port is taken. */
function portsOn(
  free: Free,
  ranges: PortRanges,
  request: PlacementRequest,
): Partial<Record<PortService, number>> | undefined {
  const taken = new Set(free.ports);
  for (const { port, protocol } of request.reservedPorts) {
    if (free.ports.has(`${port}${protocol}`)) return undefined;
    taken.add(`${port}${protocol}`);
  }
  const found: Partial<Record<PortService, number>> = {};
  for (const service of request.services) {
    const range = ranges[service];
    if (range === undefined) continue;
    let port = range.first;
    while (port <= range.last && taken.has(`${port}TCP`)) port++;
    if (port > range.last) return undefined;
    taken.add(`${port}TCP`);
    found[service] = port;
  }
  return found;
}

/** All reasons against a node, none where it fits. */
function against(
  node: NodeFacts,
  free: Free,
  ranges: PortRanges,
  request: PlacementRequest,
  affinity: AffinityOracle,
): string[] {
  if (request.nodeName !== undefined && request.nodeName !== node.name)
    return ["node(s) didn't match the requested node name"];
  if (node.cordoned) return ['node(s) were unschedulable'];
  if (!node.ready) return ['node(s) were not ready'];
  if (node.taints.some((taint) => hard(taint) && !request.tolerations.some((one) => matches(one, taint))))
    return ['node(s) had untolerated taint(s)'];
  if (node.operatingSystem !== 'linux') return ['node(s) did not run Linux'];
  if (request.architecture !== undefined && request.architecture !== node.architecture)
    return [`node(s) didn't match architecture ${request.architecture}`];
  if (node.reservedFor !== undefined && node.reservedFor !== request.namespace)
    return ['node(s) were reserved for another namespace'];
  if (request.tagRequired && request.tag !== undefined && !node.tags.includes(request.tag))
    return [`node(s) didn't have tag ${request.tag}`];
  if (request.gpu && !node.gpuEnabled) return ['not enabled for GPU passthrough'];
  if (request.gpu && node.allocatable[4] === 0) return ['GPU passthrough device not ready'];
  const accelerator = acceleratorOn(node, request);
  if (node.allocatable[5] === 0) {
    const mayBeKvm = (node.accelerator ?? request.accelerator) !== 'tcg';
    const isAwaited = node.foundKvm === undefined && free.hasAgent;
    if (mayBeKvm && node.foundKvm === true) return ['hardware virtualisation device not ready'];
    if (mayBeKvm && isAwaited) return ['hardware virtualisation not reported yet'];
    if (accelerator === 'kvm') return ['node(s) without hardware virtualisation'];
  }
  const labels = affinity.againstNode(node);
  if (labels.length > 0) return labels;
  if (request.avoid?.has(node.name) === true || portsOn(free, ranges, request) === undefined)
    return ["node(s) didn't have free ports for the requested pod ports"];
  const emulation = accelerator === 'tcg' ? request.emulationBytes : 0;
  const lacks: [boolean, string][] = [
    [free.amounts[3]! < 1, 'Too many pods'],
    [request.cpuMilli > 0 && free.amounts[0]! < request.cpuMilli, 'Insufficient cpu'],
    [
      request.memoryBytes + emulation > 0 && free.amounts[1]! < request.memoryBytes + emulation,
      'Insufficient memory',
    ],
    [
      request.ephemeralStorageBytes > 0 && free.amounts[2]! < request.ephemeralStorageBytes,
      'Insufficient ephemeral-storage',
    ],
    [request.gpu && free.amounts[4]! < 1, 'GPU passthrough in use'],
    [accelerator === 'kvm' && free.amounts[5]! < 1, 'Insufficient svc3.dev/kvm'],
  ];
  const lacking = lacks.flatMap(([isLacking, reason]) => (isLacking ? [reason] : []));
  return lacking.length > 0 ? lacking : affinity.againstPods(node);
}

/** Whether the guest would boot, though there is a memory. */
function isCold(node: NodeFacts, request: PlacementRequest): boolean {
  const { memory } = request;
  if (memory === undefined) return false;
  if (memory.refusal !== undefined) return true;
  if (acceleratorOn(node, request) !== memory.accelerator) return true;
  const wanted = memory.hostCpu;
  if (wanted === undefined) return false;
  const there = node.hostCpu;
  if (there === undefined || there.model !== wanted.model) return true;
  return wanted.flags.some((flag) => !there.flags.includes(flag));
}

/** Whether each of the nodes starts the guest warm, as `svc3 vm explain` tells it. */
export function startsWarm(node: NodeFacts, request: PlacementRequest): boolean | undefined {
  return request.memory === undefined ? undefined : !isCold(node, request);
}

/** Smaller is better: the tag that is preferred, then soft taints. */
function rankOf(node: NodeFacts, request: PlacementRequest): number {
  const soft = node.taints.filter(
    (taint) => taint.effect === 'PreferNoSchedule' && !request.tolerations.some((one) => matches(one, taint)),
  ).length;
  return (request.tag === undefined || node.tags.includes(request.tag) ? 0 : 1_000) + soft;
}

function emptiness({ amounts, capacity }: Free): number {
  const part = (i: number): number => (capacity[i] === 0 ? 0 : amounts[i]! / capacity[i]!);
  return (part(0) + part(1)) / 2;
}

/** All reasons against one of the nodes, as `svc3 vm explain` tells them. */
export function verdict(
  node: NodeFacts,
  nodes: readonly NodeFacts[],
  taken: readonly Taken[],
  ranges: PortRanges,
  request: PlacementRequest,
): string[] {
  return against(node, freeOn(node, taken), ranges, request, new AffinityOracle(nodes, taken, request));
}

export function oracle(
  nodes: readonly NodeFacts[],
  taken: readonly Taken[],
  ranges: PortRanges,
  request: PlacementRequest,
): Answer {
  const affinity = new AffinityOracle(nodes, taken, request);
  const looked = nodes.map((node) => {
    const free = freeOn(node, taken);
    return { node, free, reasons: against(node, free, ranges, request, affinity) };
  });
  const fitting = looked.filter(({ reasons }) => reasons.length === 0);
  const least = Math.min(...fitting.map(({ node }) => rankOf(node, request)));
  const first = fitting.filter(({ node }) => rankOf(node, request) === least);
  const preferences = affinity.preferences(first.map(({ node }) => node));
  const [best] = first.toSorted((a, b) => {
    const byPreference = preferences.get(b.node)! - preferences.get(a.node)!;
    if (byPreference !== 0) return byPreference;
    const byMemory = Number(isCold(a.node, request)) - Number(isCold(b.node, request));
    if (byMemory !== 0) return byMemory;
    const byRoom = emptiness(b.free) - emptiness(a.free) || (a.node.name < b.node.name ? -1 : 1);
    return request.packed ? -byRoom : byRoom;
  });
  if (best !== undefined)
    return {
      outcome: best.node.name,
      accelerator: acceleratorOn(best.node, request),
      ports: portsOn(best.free, ranges, request) ?? {},
    };
  if (nodes.length === 0) return { outcome: 'no nodes available to schedule pods' };
  const counts: Record<string, number> = {};
  for (const { reasons } of looked) for (const reason of reasons) counts[reason] = (counts[reason] ?? 0) + 1;
  const parts = Object.entries(counts).map(([reason, count]) => `${count} ${reason}`);
  return { outcome: `0/${nodes.length} nodes are available: ${parts.toSorted().join(', ')}.` };
}
