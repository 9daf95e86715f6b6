/**
 * A small world of GPU VMs: operators with stale caches, a scheduler, kubelets, kernels, users and crashes. Every step of
 * it is one write to kube-apiserver, one event that arrives, or one thing that a node does; what an operator decides comes
 * from the product's own functions. What is promised is stated over what the kernel sees: who has a node's VFIO groups open.
 */
import type { Pod } from '../../../src/api/core.ts';
import type { Vm } from '../../../src/api/vm.ts';
import { Inventory } from '../../../src/placement/inventory.ts';
import { place } from '../../../src/placement/place.ts';
import { podFacts } from '../../../src/placement/podfacts.ts';
import { decide } from '../../../src/controllers/vm/decide.ts';
import { aNode, aRequest, ranges } from './builders.ts';
import { storedMeta } from '../../support/storedmeta.ts';

/** What holds the limit; a test takes one out to see that the checker finds what follows. */
export interface Walls {
  /** Operators look at what is in use. */
  readonly placement: boolean;
  /** Operators remember what they have just placed. */
  readonly assume: boolean;
  /** kube-scheduler counts svc3.dev/gpu-passthrough. */
  readonly scheduler: boolean;
  /** The kubelet's device manager gives the bundle to one pod that it knows. */
  readonly kubelet: boolean;
  /** The kernel opens a VFIO group once. */
  readonly kernel: boolean;
}

export interface World {
  readonly nodes: number;
  readonly vms: number;
  readonly operators: number;
  readonly walls: Walls;
  /** Crashes of operators, together. */
  readonly crashes: number;
  /** Restarts of the scheduler that begin with a list which shows nothing yet. */
  readonly staleSchedulers: number;
  /** VMs that users delete, together. */
  readonly deletions: number;
  /** Pods that somebody deletes by force while their containers run: the kubelet forgets them before they have ended. */
  readonly forcedDeletions: number;
  /** Kubelets that start without their record of devices given away (`kubelet_internal_checkpoint`). */
  readonly lostRecords: number;
  /** Pods made for one VM. */
  readonly podsPerVm: number;
  /** What operators do wrong, where a test wants to see that the checker counts who starves of it. */
  readonly flaw?: 'keepsAssumptions' | 'missesEnds' | 'neverReplaces';
}

interface ModelPod {
  readonly uid: number;
  readonly node: number;
  readonly bound: boolean;
  readonly phase: 'Pending' | 'Running' | 'Failed';
  readonly unschedulable: boolean;
  readonly terminating: boolean;
}

interface Seen {
  /** The VM is there. */
  readonly vm: boolean;
  readonly pod: ModelPod | null;
}

interface Operator {
  readonly cache: readonly Seen[];
  /** Node on which a VM was placed whose pod has not been seen, -1: none. */
  readonly assumed: readonly number[];
}

/** A pod of a VM, as a node knows it. */
interface Holder {
  readonly vm: number;
  readonly uid: number;
}

interface Container extends Holder {
  /** QEMU has the groups of the bundle open. */
  readonly hasGpu: boolean;
}

export interface State {
  readonly truth: readonly Seen[];
  readonly made: readonly number[];
  readonly operators: readonly Operator[];
  /** Pods that the scheduler counts. */
  readonly counted: readonly (ModelPod | null)[];
  /** Whom the kubelet of a node has given its bundle. */
  readonly given: readonly (Holder | null)[];
  /** Containers of a node that were started with its bundle. */
  readonly running: readonly (readonly Container[])[];
  readonly left: {
    crashes: number;
    staleSchedulers: number;
    deletions: number;
    forced: number;
    lostRecords: number;
  };
}

export interface Step {
  readonly name: string;
  readonly next: State;
  /** Somebody else's doing: nothing waits for it. */
  readonly isFault: boolean;
}

export function initialState(world: World): State {
  const nothing: Seen = { vm: true, pod: null };
  const truth = Array.from({ length: world.vms }, () => nothing);
  return {
    truth,
    made: truth.map(() => 0),
    operators: Array.from({ length: world.operators }, () => ({
      cache: truth,
      assumed: truth.map(() => -1),
    })),
    counted: truth.map(() => null),
    given: Array.from({ length: world.nodes }, () => null),
    running: Array.from({ length: world.nodes }, () => []),
    left: {
      crashes: world.crashes,
      staleSchedulers: world.staleSchedulers,
      deletions: world.deletions,
      forced: world.forcedDeletions,
      lostRecords: world.lostRecords,
    },
  };
}

/** Every step that can come next. */
export function steps(world: World, state: State): Step[] {
  const all: Step[] = [];
  const add = (name: string, next: State | undefined, isFault = false) => {
    if (next !== undefined) all.push({ name, next, isFault });
  };
  for (let o = 0; o < world.operators; o++) {
    for (let v = 0; v < world.vms; v++) {
      add(`operator ${o} reconciles vm ${v}`, reconcile(world, state, o, v));
      add(`operator ${o} sees vm ${v}`, observe(world, state, o, v));
    }
    if (state.left.crashes > 0) add(`operator ${o} crashes`, crash(state, o), true);
  }
  for (let v = 0; v < world.vms; v++) {
    add(`the scheduler takes vm ${v}`, schedule(world, state, v));
    add(`the scheduler sees vm ${v}`, count(state, v));
    add(`the kubelet admits vm ${v}`, admit(world, state, v));
    add(`the kubelet ends vm ${v}`, end(state, v));
    add(`the garbage collector takes vm ${v}`, collect(state, v));
    add(`a user deletes vm ${v}`, deleteVm(state, v), true);
    add(`somebody deletes the pod of vm ${v} by force`, force(state, v), true);
  }
  for (let n = 0; n < world.nodes; n++) {
    add(`the kubelet of node ${n} kills what is gone`, killOrphan(state, n));
    add(`the kubelet of node ${n} loses its record`, loseRecord(state, n), true);
    state.running[n]!.forEach((container, index) =>
      add(`QEMU of vm ${container.vm} on node ${n} opens the groups`, open(world, state, n, index)),
    );
  }
  if (state.left.staleSchedulers > 0) {
    const left = { ...state.left, staleSchedulers: state.left.staleSchedulers - 1 };
    add(
      'another scheduler starts with an old list',
      { ...state, counted: state.counted.map(() => null), left },
      true,
    );
  }
  return all;
}

const set = <T>(list: readonly T[], index: number, value: T): T[] => list.with(index, value);

function withPod(state: State, v: number, pod: ModelPod | null): State {
  return { ...state, truth: set(state.truth, v, { vm: state.truth[v]!.vm, pod }) };
}

function withOperator(state: State, o: number, change: Partial<Operator>): State {
  return { ...state, operators: set(state.operators, o, { ...state.operators[o]!, ...change }) };
}

function reconcile(world: World, state: State, o: number, v: number): State | undefined {
  const operator = state.operators[o]!;
  const seen = operator.cache[v]!;
  if (!seen.vm) return undefined;
  const plan = decide({
    vm: vmOf(v),
    pod: podOf(v, seen.pod),
    surplus: undefined,
    settings: undefined,
    node: undefined,
    claim: undefined,
    pullSecretVersion: undefined,
    pullsWith: '',
    isNodeLost: false,
    unprepared: undefined,
    unsaved: [],
    isSavedFirst: false,
    saveWaitMs: 0,
    now: 0,
  });
  if (plan.kind === 'replace')
    return world.flaw === 'neverReplaces' ? undefined : remove(state, v, seen.pod!.uid);
  if (plan.kind !== 'deploy') return undefined;
  const node = choose(world, operator, v);
  if (node === undefined) return undefined;
  const assumed = world.walls.assume ? set(operator.assumed, v, node) : operator.assumed;
  const after = withOperator(state, o, { assumed });
  // AlreadyExists: the name of the pod is the VM's; the assumption stays until the pod is seen.
  if (state.truth[v]!.pod !== null) return operator.assumed[v] === node ? undefined : after;
  if (state.made[v]! >= world.podsPerVm) return undefined;
  const uid = state.made[v]! + 1;
  const pod: ModelPod = {
    uid,
    node,
    bound: false,
    phase: 'Pending',
    unschedulable: false,
    terminating: false,
  };
  return { ...withPod(after, v, pod), made: set(state.made, v, uid) };
}

const decisions = new Map<string, number | undefined>();

/** The product's own placement over what this operator knows. */
function choose(world: World, operator: Operator, v: number): number | undefined {
  const key = JSON.stringify([world.nodes, world.walls.placement, operator, v]);
  if (!decisions.has(key)) decisions.set(key, placed(world, operator, v));
  return decisions.get(key);
}

function placed(world: World, operator: Operator, v: number): number | undefined {
  const inventory = new Inventory(ranges);
  for (let n = 0; n < world.nodes; n++) inventory.setNode(aNode(`n${n}`, { gpuEnabled: true, gpu: 1 }));
  if (world.walls.placement) {
    operator.cache.forEach(({ pod }, other) => {
      const facts = pod === null ? undefined : podFacts(podOf(other, pod)!, `vm-${other}`);
      if (facts !== undefined) inventory.setPod(facts);
    });
    operator.assumed.forEach((node, other) => {
      // What is assumed for this VM is forgotten before it is placed anew.
      if (node === -1 || other === v) return;
      const usage = place(inventory, aRequest({ gpu: true, nodeName: `n${node}` }));
      if (usage.kind === 'placed') inventory.assume(`vm-${other}`, usage.usage);
    });
  }
  const result = place(inventory, aRequest({ gpu: true }));
  return result.kind === 'placed' ? Number(result.node.slice(1)) : undefined;
}

function vmOf(v: number): Vm {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: storedMeta({ name: `vm-${v}`, namespace: 'default', uid: `vm-${v}` }),
    spec: { powerState: 'Running' },
  };
}

function podOf(v: number, pod: ModelPod | null): Pod | undefined {
  if (pod === null) return undefined;
  const values = [`n${pod.node}`];
  return {
    metadata: storedMeta({
      name: `svc3-vm-vm-${v}`,
      namespace: 'default',
      uid: `pod-${v}-${pod.uid}`,
      ownerReferences: [
        { apiVersion: 'svc3.dev/v1', kind: 'VM', name: `vm-${v}`, uid: `vm-${v}`, controller: true },
      ],
      ...(pod.terminating ? { deletionTimestamp: '2026-01-01T00:00:00Z' } : {}),
    }),
    spec: {
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values }] }],
          },
        },
      },
      containers: [{ name: 'runner', resources: { requests: { 'svc3.dev/gpu-passthrough': '1' } } }],
      ...(pod.bound ? { nodeName: `n${pod.node}` } : {}),
    },
    status: {
      phase: pod.phase,
      conditions: pod.unschedulable
        ? [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: 'no room' }]
        : [],
    },
  };
}

/** A delete with the UID as precondition; the kubelet has to end what runs. */
function remove(state: State, v: number, uid: number): State | undefined {
  const pod = state.truth[v]!.pod;
  if (pod?.uid !== uid || pod.terminating) return undefined;
  const waits = pod.bound && pod.phase !== 'Failed';
  return withPod(state, v, waits ? { ...pod, terminating: true } : null);
}

/** An event arrives; any number of older ones may have been lost in a relist. */
function observe(world: World, state: State, o: number, v: number): State | undefined {
  const operator = state.operators[o]!;
  const now = state.truth[v]!;
  if (JSON.stringify(operator.cache[v]) === JSON.stringify(now)) return undefined;
  if (world.flaw === 'missesEnds' && now.vm && now.pod === null) return undefined;
  // The pod that is seen counts from now on, and so does a VM that is gone.
  const ends = (now.pod !== null || !now.vm) && world.flaw !== 'keepsAssumptions';
  return withOperator(state, o, {
    cache: set(operator.cache, v, now),
    assumed: ends ? set(operator.assumed, v, -1) : operator.assumed,
  });
}

/** The one that follows lists everything and remembers nothing. */
function crash(state: State, o: number): State {
  const left = { ...state.left, crashes: state.left.crashes - 1 };
  return withOperator({ ...state, left }, o, { cache: state.truth, assumed: state.truth.map(() => -1) });
}

function schedule(world: World, state: State, v: number): State | undefined {
  const pod = state.truth[v]!.pod;
  if (pod === null || pod.bound || pod.terminating) return undefined;
  const taken = state.counted.some((other, index) => index !== v && other?.node === pod.node);
  if (world.walls.scheduler && taken)
    return pod.unschedulable ? undefined : withPod(state, v, { ...pod, unschedulable: true });
  const bound = { ...pod, bound: true, unschedulable: false };
  return { ...withPod(state, v, bound), counted: set(state.counted, v, bound) };
}

function count(state: State, v: number): State | undefined {
  const pod = state.truth[v]!.pod;
  const now = pod?.bound === true && pod.phase !== 'Failed' ? pod : null;
  const before = state.counted[v] ?? null;
  if (before?.uid === now?.uid && before?.node === now?.node) return undefined;
  return { ...state, counted: set(state.counted, v, now) };
}

function admit(world: World, state: State, v: number): State | undefined {
  const pod = state.truth[v]!.pod;
  if (pod === null || !pod.bound || pod.terminating || pod.phase !== 'Pending') return undefined;
  const owner = state.given[pod.node] ?? null;
  // The device manager frees what belongs to no pod that it knows, whether or not the containers have ended.
  const isKnown = owner !== null && state.truth[owner.vm]!.pod?.uid === owner.uid;
  if (world.walls.kubelet && isKnown) return withPod(state, v, { ...pod, phase: 'Failed' });
  const holder = { vm: v, uid: pod.uid };
  const containers = [...state.running[pod.node]!, { ...holder, hasGpu: false }];
  return {
    ...withPod(state, v, { ...pod, phase: 'Running' }),
    given: set(state.given, pod.node, holder),
    running: set(state.running, pod.node, containers),
  };
}

/** A group that is busy is tried again by the runner: nothing happens until it is free. */
function open(world: World, state: State, n: number, index: number): State | undefined {
  const containers = state.running[n]!;
  const container = containers[index]!;
  if (container.hasGpu) return undefined;
  if (world.walls.kernel && containers.some(({ hasGpu }) => hasGpu)) return undefined;
  return { ...state, running: set(state.running, n, set(containers, index, { ...container, hasGpu: true })) };
}

function loseRecord(state: State, n: number): State | undefined {
  if (state.left.lostRecords === 0 || state.given[n] === null) return undefined;
  const left = { ...state.left, lostRecords: state.left.lostRecords - 1 };
  return { ...state, given: set(state.given, n, null), left };
}

function end(state: State, v: number): State | undefined {
  const pod = state.truth[v]!.pod;
  if (pod === null || !pod.terminating) return undefined;
  const rest = state.running[pod.node]!.filter(({ vm, uid }) => vm !== v || uid !== pod.uid);
  return { ...withPod(state, v, null), running: set(state.running, pod.node, rest) };
}

function collect(state: State, v: number): State | undefined {
  const { vm, pod } = state.truth[v]!;
  return vm || pod === null ? undefined : remove(state, v, pod.uid);
}

function deleteVm(state: State, v: number): State | undefined {
  const { vm, pod } = state.truth[v]!;
  if (!vm || state.left.deletions === 0) return undefined;
  const left = { ...state.left, deletions: state.left.deletions - 1 };
  return { ...state, truth: set(state.truth, v, { vm: false, pod }), left };
}

function force(state: State, v: number): State | undefined {
  const pod = state.truth[v]!.pod;
  if (pod?.phase !== 'Running' || state.left.forced === 0) return undefined;
  return withPod({ ...state, left: { ...state.left, forced: state.left.forced - 1 } }, v, null);
}

/** A container whose pod is gone runs on until the kubelet has noticed. */
function killOrphan(state: State, n: number): State | undefined {
  const rest = state.running[n]!.filter(({ vm, uid }) => state.truth[vm]!.pod?.uid === uid);
  return rest.length === state.running[n]!.length
    ? undefined
    : { ...state, running: set(state.running, n, rest) };
}

/** The promises; each is a sentence and says whether it holds. */
export const promises = {
  'no node has its groups open for two VMs': (state: State) =>
    state.running.every((containers) => containers.filter(({ hasGpu }) => hasGpu).length <= 1),
  'no node starts a VM while another has its bundle': (state: State) =>
    state.running.every((containers) => containers.length <= 1),
  'no two pods that live are bound to one node': (state: State) => isOneEach(state, (pod) => pod.bound),
  'no two pods that live are meant for one node': (state: State) => isOneEach(state, () => true),
} as const;

export type Promised = keyof typeof promises;

function isOneEach(state: State, counts: (pod: ModelPod) => boolean): boolean {
  const nodes = state.truth.flatMap(({ pod }) =>
    pod !== null && pod.phase !== 'Failed' && counts(pod) ? [pod.node] : [],
  );
  return new Set(nodes).size === nodes.length;
}

export interface Finding {
  readonly states: number;
  /** Length of the longest way looked at. */
  readonly depth: number;
  /** All reachable states were seen. */
  readonly isComplete: boolean;
  /** Shortest ways to a broken promise. */
  readonly broken: ReadonlyMap<Promised, readonly string[]>;
  /** States in which nothing is left to do and a node is idle, though a VM that may have another pod has no GPU. */
  readonly starved: number;
}

/** One letter for each thing a pod can be; what is the same is written the same, so that states are compared as texts. */
const podTexts = new WeakMap<ModelPod, string>();

function podText(pod: ModelPod | null): string {
  if (pod === null) return '-';
  const known = podTexts.get(pod);
  if (known !== undefined) return known;
  const flags = Number(pod.bound) + 2 * Number(pod.unschedulable) + 4 * Number(pod.terminating);
  const text = `${pod.uid}${pod.node}${pod.phase[0]}${flags}`;
  podTexts.set(pod, text);
  return text;
}

const seenText = ({ vm, pod }: Seen): string => `${vm ? '+' : 'x'}${podText(pod)}`;

/** All orders of the numbers below `count`. */
function orders(count: number): number[][] {
  if (count === 0) return [[]];
  return orders(count - 1).flatMap((order) =>
    Array.from({ length: count }, (_, at) => order.toSpliced(at, 0, count - 1)),
  );
}

/**
 * The state as a text. VMs are alike and so are operators: the smallest of the texts that they have in whatever order
 * stands for all of them.
 */
function keyOf(state: State, vmOrders: readonly (readonly number[])[]): string {
  let smallest: string | undefined;
  for (const order of vmOrders) {
    const place = (v: number): number => order.indexOf(v);
    const operators = state.operators
      .map(({ cache, assumed }) => order.map((v) => `${seenText(cache[v]!)}${assumed[v]}`).join(' '))
      .toSorted();
    const vms = order.map((v) => `${seenText(state.truth[v]!)}${state.made[v]}${podText(state.counted[v]!)}`);
    const nodes = state.running.map((containers, n) => {
      const given = state.given[n] ?? null;
      const inside = containers
        .map(({ vm, uid, hasGpu }) => `${place(vm)}${uid}${hasGpu ? '!' : ''}`)
        .toSorted();
      return `${given === null ? '-' : `${place(given.vm)}${given.uid}`}:${inside.join()}`;
    });
    const text = [...operators, ...vms, ...nodes, Object.values(state.left).join('')].join('|');
    if (smallest === undefined || text < smallest) smallest = text;
  }
  return smallest ?? '';
}

interface Visit {
  readonly state: State;
  readonly from: Visit | undefined;
  readonly by: string;
}

/**
 * Every interleaving, breadth first: all reachable states, or until every promise of `until` is broken, so that the way to
 * each is a shortest one.
 */
export function check(world: World, until: readonly Promised[] = []): Finding {
  const broken = new Map<Promised, readonly string[]>();
  const seen = new Set<string>();
  let starved = 0;
  let depth = 0;
  let layer: Visit[] = [];
  const first: Visit = { state: initialState(world), from: undefined, by: 'start' };
  const isAnswered = (): boolean => until.length > 0 && until.every((promised) => broken.has(promised));
  const vmOrders = orders(world.vms);
  seen.add(keyOf(first.state, vmOrders));
  for (layer = [first]; layer.length > 0 && !isAnswered(); depth++) {
    const next: Visit[] = [];
    for (const visit of layer) {
      const following = steps(world, visit.state);
      if (following.every(({ isFault }) => isFault) && isStarved(world, visit.state)) starved++;
      for (const { name, next: state } of following) {
        const key = keyOf(state, vmOrders);
        if (seen.has(key)) continue;
        seen.add(key);
        const reached = { state, from: visit, by: name };
        next.push(reached);
        for (const promised of brokenBy(state).filter((one) => !broken.has(one)))
          broken.set(promised, wayTo(reached));
      }
    }
    layer = next;
  }
  return { states: seen.size, depth, isComplete: layer.length === 0, broken, starved };
}

function brokenBy(state: State): Promised[] {
  return (Object.keys(promises) as Promised[]).filter((promised) => !promises[promised](state));
}

/** Of each VM by itself: one that has used up the pods of the bound cannot be counted on, the others can. */
function isStarved(world: World, { truth, made, operators, running }: State): boolean {
  const gpus = running.map((containers) => containers.find(({ hasGpu }) => hasGpu));
  const isUsedUp = (v: number): boolean => truth[v]!.vm && made[v]! >= world.podsPerVm;
  const isWaiting = truth.some(({ vm }, v) => vm && !isUsedUp(v) && !gpus.some((holder) => holder?.vm === v));
  // Without the bound, a VM that has used up its pods would get the node that an operator keeps for it.
  const isKept = (n: number): boolean =>
    operators.some(({ assumed }) => assumed.some((node, v) => node === n && isUsedUp(v)));
  return isWaiting && gpus.some((holder, n) => holder === undefined && !isKept(n));
}

function wayTo(visit: Visit): string[] {
  const way: string[] = [];
  for (let at: Visit | undefined = visit; at?.from !== undefined; at = at.from) way.unshift(at.by);
  return way;
}
