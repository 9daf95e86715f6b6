import type { ClassFacts } from './facts.ts';
import type { Inventory, NodeState } from './inventory.ts';
import {
  affinityRules,
  coldReasonOn,
  createNeeds,
  type Judge,
  type PlacementRequest,
  portsOn,
  verdictOn,
} from './place.ts';
import { type HostPort, portKey } from './ports.ts';
import { reasons } from './reasons.ts';

/** What `svc3 vm explain` prints of one node. */
export interface NodeVerdict {
  readonly node: string;
  readonly fits: boolean;
  /** Empty when it fits. */
  readonly reasons: readonly string[];
  /** Percent of the node that is free (mean of cpu and memory), 0…100. */
  readonly free: number;
  /** Only where it fits: ports of the node that the VM would go without since somebody else has them, e.g. `20080/TCP`. */
  readonly withoutPorts?: readonly string[];
  /** Only where there is a memory to go on from: whether the guest would, else why not. */
  readonly warmStart?: { readonly fromMemory: boolean; readonly message: string };
}

/**
 * The verdict on every node, sorted by name; the one place that looks at all of them.
 *
 * @param optionalPorts - ports of the node that the VM has where they are free, and goes without where they are not
 */
export function explain(
  inventory: Inventory,
  request: PlacementRequest,
  optionalPorts: readonly HostPort[] = [],
): NodeVerdict[] {
  const judge = {
    needs: createNeeds(request, inventory.ranges),
    accepts: (node: NodeState) => portsOn(inventory, node, request) !== undefined,
    affinity: affinityRules(inventory, request),
    optionalPorts,
  };
  const verdicts = inventory.nodes().map((state) => nodeVerdict(state, request, judge));
  return verdicts.sort((a, b) => (a.node < b.node ? -1 : 1));
}

function nodeVerdict(
  state: NodeState,
  request: PlacementRequest,
  judge: Judge & { readonly optionalPorts: readonly HostPort[] },
): NodeVerdict {
  const misnamed = request.nodeName !== undefined && state.name !== request.nodeName;
  const refusals =
    misnamed || state.class === undefined
      ? [reasons.nodeName]
      : verdictOn(state, state.class.facts, request, judge);
  return {
    node: state.name,
    fits: refusals.length === 0,
    reasons: refusals,
    free: Math.max(0, Math.round(state.score * 100)),
    ...(refusals.length === 0 ? takenOn(state, judge.optionalPorts) : {}),
    ...warmStartOn(state.class?.facts, request),
  };
}

function takenOn(
  { usedPorts }: NodeState,
  optionalPorts: readonly HostPort[],
): Pick<NodeVerdict, 'withoutPorts'> {
  const taken = optionalPorts.filter((port) => usedPorts.has(portKey(port)));
  return taken.length === 0 ? {} : { withoutPorts: taken.map(({ port, protocol }) => `${port}/${protocol}`) };
}

function warmStartOn(
  facts: ClassFacts | undefined,
  request: PlacementRequest,
): Pick<NodeVerdict, 'warmStart'> {
  if (facts === undefined || request.memory === undefined) return {};
  const message = coldReasonOn(facts, request, request.memory);
  return { warmStart: { fromMemory: message === undefined, message: message ?? '' } };
}
