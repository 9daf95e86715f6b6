import { AffinityRules } from './affinity.ts';
import type { Accelerator, ClassFacts } from './facts.ts';
import type { Inventory } from './inventory.ts';
import { placeLeavingOut } from './leaveout.ts';
import { acceleratorOn, awaits, excludesForGood, type PlacementRequest } from './place.ts';
import { lastingTaints } from './taints.ts';

/** What is fixed of a pod before its node is, where that is left to kube-scheduler. */
export interface Unpinned {
  readonly accelerator: 'auto' | Accelerator;
  readonly requestsEphemeralStorage: boolean;
}

/**
 * What fits the nodes that take such VMs when they have room. Under `kvm` where one of them has it, or where the chart says so and none is labelled
 * otherwise; else QEMU emulates. No request for local storage where none of those nodes could meet it. Undefined where the VM waits instead, for
 * the report of a node agent or the device of a kubelet.
 */
export function unpinned(inventory: Inventory, request: PlacementRequest): Unpinned | undefined {
  const candidates = [...classesOf(inventory, request)].filter(
    (facts) => excludesForGood({ ...facts, taints: lastingTaints(facts.taints) }, request) === undefined,
  );
  // One that is down or cordoned reports nothing, perhaps for ever.
  const awaited = candidates.filter(
    (facts) => facts.ready && !facts.cordoned && awaits(facts, request) !== undefined,
  );
  const underKvm = candidates.filter((facts) => acceleratorOn(facts, request) === 'kvm');
  // It would be emulated as long as it lives, and the node may have hardware virtualisation.
  if (awaited.length > 0 && underKvm.length === 0) return undefined;
  if (awaited.length > 0 && hasRoom(inventory, request)) return undefined;
  const accelerator = acceleratorAmong(candidates, underKvm, request);
  const meant = accelerator === 'kvm' ? underKvm : candidates;
  const requestsEphemeralStorage =
    meant.length === 0 || meant.some(({ reportsEphemeralStorage }) => reportsEphemeralStorage);
  return { accelerator, requestsEphemeralStorage };
}

/** Whether a node would take the VM that refuses it for what is not known of its hardware virtualisation, or not ready. */
function hasRoom(inventory: Inventory, request: PlacementRequest): boolean {
  return placeLeavingOut(inventory, { ...request, accelerator: 'tcg' }).result.kind === 'placed';
}

/** Of the nodes that neither their name nor node affinity excludes; each is looked at only where there is such a rule. */
function classesOf(inventory: Inventory, request: PlacementRequest): ReadonlySet<ClassFacts> {
  const { nodeName, affinity } = request;
  const hasRules = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution !== undefined;
  if (nodeName === undefined && !hasRules)
    return new Set(Array.from(inventory.classes(), ({ facts }) => facts));
  const rules = new AffinityRules(inventory, request);
  const named = nodeName === undefined ? inventory.nodes() : [inventory.node(nodeName)];
  const found = new Set<ClassFacts>();
  for (const state of named)
    if (state?.class !== undefined && rules.refusesNode(state) === undefined) found.add(state.class.facts);
  return found;
}

function acceleratorAmong(
  candidates: readonly ClassFacts[],
  underKvm: readonly ClassFacts[],
  { accelerator }: PlacementRequest,
): 'auto' | Accelerator {
  if (accelerator === 'tcg') return 'tcg';
  if (underKvm.length > 0) return 'kvm';
  return accelerator === 'kvm' && candidates.length > 0 ? 'tcg' : accelerator;
}
