import { AffinityRules } from './affinity.ts';
import type { Accelerator, ClassFacts } from './facts.ts';
import type { Inventory } from './inventory.ts';
import { placeLeavingOut } from './leaveout.ts';
import { acceleratorOn, awaits, excludesForGood, type PlacementRequest } from './place.ts';
import { lastingTaints } from './taints.ts';

const none: ReadonlySet<string> = new Set();

/** What is fixed of a pod before its node is, where that is left to kube-scheduler. */
export interface Unpinned {
  readonly accelerator: 'auto' | Accelerator;
  readonly requestsEphemeralStorage: boolean;
}

/**
 * What fits the nodes that take such VMs when they have room. Under `kvm` where one of them has it, or where the chart says so and none is labelled
 * otherwise; else QEMU emulates. While no node takes such VMs, or none that does has said what it has, as where an autoscaler is to add the first of its
 * kind, it is `kvm` where other nodes have it: a pod without the device is bound before the new node can say that it has one, and is emulated as long as
 * it lives. No request for local storage where none of those nodes could meet it. What nodes have that are to be avoided counts only where no other takes
 * such VMs. Undefined where the VM waits instead, for the report of a node agent or the device of a kubelet.
 */
export function unpinned(inventory: Inventory, request: PlacementRequest): Unpinned | undefined {
  const named = classesOf(inventory, { ...request, avoid: none });
  const candidates = takersAmong(named, request);
  // One that is down or cordoned reports nothing, perhaps for ever.
  const awaited = candidates.filter(
    (facts) => facts.ready && !facts.cordoned && awaits(facts, request) !== undefined,
  );
  const underKvm = kvmAmong(candidates, request);
  // It would be emulated as long as it lives, and the node may have hardware virtualisation.
  if (awaited.length > 0 && underKvm.length === 0) return undefined;
  if (awaited.length > 0 && hasRoom(inventory, request)) return undefined;
  const expectsKvm = () =>
    hasKvm(knownOf(named, request) ?? knownOf(allClasses(inventory), request) ?? [], request);
  const others = hasAvoided(request) ? takersAmong(classesOf(inventory, request), request) : candidates;
  const expected = others.length > 0 ? others : candidates;
  const accelerator = acceleratorAmong(expected, request, expectsKvm);
  const meant = accelerator === 'kvm' ? kvmAmong(expected, request) : expected;
  const requestsEphemeralStorage =
    meant.length === 0 || meant.some(({ reportsEphemeralStorage }) => reportsEphemeralStorage);
  return { accelerator, requestsEphemeralStorage };
}

/** Whether a node would take the VM that refuses it for what is not known of its hardware virtualisation, or not ready. */
function hasRoom(inventory: Inventory, request: PlacementRequest): boolean {
  return placeLeavingOut(inventory, { ...request, accelerator: 'tcg' }).result.kind === 'placed';
}

/** Those that take such VMs when they have room. */
function takersAmong(classes: readonly ClassFacts[], request: PlacementRequest): readonly ClassFacts[] {
  return classes.filter(
    (facts) => excludesForGood({ ...facts, taints: lastingTaints(facts.taints) }, request) === undefined,
  );
}

function kvmAmong(classes: readonly ClassFacts[], request: PlacementRequest): readonly ClassFacts[] {
  return classes.filter((facts) => acceleratorOn(facts, request) === 'kvm');
}

function hasAvoided({ avoid = none }: PlacementRequest): boolean {
  return avoid.size > 0;
}

/** Of the nodes that neither their name nor node affinity excludes, and that are not to be avoided; each is looked at only where there is such a rule. */
function classesOf(inventory: Inventory, request: PlacementRequest): readonly ClassFacts[] {
  const { nodeName, affinity, avoid } = request;
  const hasRules = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution !== undefined;
  if (nodeName === undefined && !hasRules && !hasAvoided(request)) return allClasses(inventory);
  const rules = new AffinityRules(inventory, request);
  const named = nodeName === undefined ? inventory.nodes() : [inventory.node(nodeName)];
  const found = new Set<ClassFacts>();
  for (const state of named)
    if (
      state?.class !== undefined &&
      avoid?.has(state.name) !== true &&
      rules.refusesNode(state) === undefined
    )
      found.add(state.class.facts);
  return [...found];
}

function allClasses(inventory: Inventory): readonly ClassFacts[] {
  return Array.from(inventory.classes(), ({ facts }) => facts);
}

function acceleratorAmong(
  candidates: readonly ClassFacts[],
  request: PlacementRequest,
  expectsKvm: () => boolean,
): 'auto' | Accelerator {
  const { accelerator } = request;
  if (accelerator === 'tcg') return 'tcg';
  if (kvmAmong(candidates, request).length > 0) return 'kvm';
  if (candidates.some((facts) => awaits(facts, request) === undefined))
    return accelerator === 'kvm' ? 'tcg' : 'auto';
  return accelerator === 'kvm' || expectsKvm() ? 'kvm' : 'auto';
}

/** Those of the request's architecture of which it is known whether they have hardware virtualisation; undefined where there is none. */
function knownOf(
  classes: readonly ClassFacts[],
  { architecture }: PlacementRequest,
): readonly ClassFacts[] | undefined {
  const known = classes.filter(
    (facts) => facts.kvm !== 'Unknown' && (architecture ?? facts.architecture) === facts.architecture,
  );
  return known.length > 0 ? known : undefined;
}

function hasKvm(classes: readonly ClassFacts[], request: PlacementRequest): boolean {
  return classes.some((facts) => facts.kvm !== 'None' && acceleratorOn(facts, request) === 'kvm');
}
