import type { Affinity, TopologySpreadConstraint } from '../api/affinity.ts';
import { isSelected, isTaken, type Labels } from '../api/selector.ts';
import type { Neighbour, PodTerm } from './facts.ts';
import type { Inventory, NodeState } from './inventory.ts';
import { reasons } from './reasons.ts';

/** What a VM asks of labels: its own ones, with which others may select it, and whom it needs, prefers or avoids. */
export interface AffinityRequest {
  readonly namespace: string;
  readonly labels: Labels;
  readonly affinity: Affinity | undefined;
  readonly topologySpreadConstraints: readonly TopologySpreadConstraint[];
}

/** The VM as the neighbour of others. */
export function neighbourOf({ namespace, labels, affinity }: AffinityRequest): Neighbour {
  const repels = affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  return { namespace, labels, repels };
}

/** How many pods there are in each place of a label of nodes. */
type Places = ReadonlyMap<string, number>;

/**
 * What speaks for and against each node by labels: node affinity, affinity and anti-affinity to pods of the namespace (also that of
 * pods that are there against this one), and topology spread, each as kube-scheduler judges it. Counts the pods once for each kind, and
 * only when a node is judged by it: of a VM that no node has room for nothing is counted.
 */
export class AffinityRules {
  readonly #inventory: Inventory;
  readonly #request: AffinityRequest;
  readonly #own: Neighbour;
  readonly #needed: () => readonly Counted[];
  readonly #avoided: () => readonly Counted[];
  readonly #repelling: () => readonly Counted[];
  readonly #hardSpread: () => readonly Spread[];
  readonly #softSpread: () => readonly Spread[];
  readonly #preferred: () => readonly Weighed[];

  constructor(inventory: Inventory, request: AffinityRequest) {
    const { affinity, topologySpreadConstraints } = request;
    this.#inventory = inventory;
    this.#request = request;
    const needed = affinity?.podAffinity;
    const avoided = affinity?.podAntiAffinity;
    this.#own = neighbourOf(request);
    const counted = (term: PodTerm) => ({
      term,
      places: this.#places(term, (pod) => isSelected(term.labelSelector, pod)),
    });
    // Only who is needed by all terms counts for any of them.
    const terms = needed?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
    const isMeant = (pod: Labels) => terms.every(({ labelSelector }) => isSelected(labelSelector, pod));
    this.#needed = once(() => terms.map((term) => ({ term, places: this.#places(term, isMeant) })));
    this.#avoided = once(() => this.#own.repels.map(counted));
    this.#repelling = once(() => this.#termsAgainst());
    this.#preferred = once(() => [
      ...weighed(needed?.preferredDuringSchedulingIgnoredDuringExecution, 1, counted),
      ...weighed(avoided?.preferredDuringSchedulingIgnoredDuringExecution, -1, counted),
    ]);
    const spreadOf = (kind: readonly TopologySpreadConstraint[]) =>
      once(() => kind.map((constraint) => this.#spreadOf(constraint, kind)));
    this.#hardSpread = spreadOf(topologySpreadConstraints.filter((constraint) => !isSoft(constraint)));
    this.#softSpread = spreadOf(topologySpreadConstraints.filter(isSoft));
  }

  /** Counts the pods that may speak against a node as they are now; otherwise that is done when the first node is judged. */
  countNow(): this {
    for (const count of [this.#hardSpread, this.#needed, this.#avoided, this.#repelling]) count();
    return this;
  }

  /** The first reason, in kube-scheduler's order of filters, that concerns labels of the node alone. */
  refusesNode({ facts }: NodeState): string | undefined {
    return this.#takes(facts?.labels ?? {}) ? undefined : reasons.nodeAffinity;
  }

  /** The same for what concerns its pods: judged after its resources. */
  refusesPods(state: NodeState): string | undefined {
    const labels = state.facts?.labels ?? {};
    for (const { constraint, places, least } of this.#hardSpread()) {
      const place = labels[constraint.topologyKey];
      if (place === undefined) return reasons.spreadLabel;
      const own = isSelected(constraint.labelSelector, this.#own.labels) ? 1 : 0;
      if ((places.get(place) ?? 0) + own - least > constraint.maxSkew) return reasons.spread;
    }
    if (!this.#isNeeded(labels)) return reasons.podAffinity;
    if (this.#avoided().some((each) => countAt(each, labels) > 0)) return reasons.podAntiAffinity;
    if (this.#repelling().some((each) => countAt(each, labels) > 0)) return reasons.existingAntiAffinity;
    return undefined;
  }

  /** How good each of these nodes is, more is better: kinds of preference count alike, each between 0 and 1. */
  preferences(states: readonly NodeState[]): number[] {
    if (states.length < 2) return states.map(() => 0);
    const spread = [...this.#hardSpread(), ...this.#softSpread()];
    const kinds = [
      (labels: Labels) => this.#nodePreference(labels),
      (labels: Labels) => sum(this.#preferred(), (each) => each.weight * countAt(each, labels)),
      (labels: Labels) => -sum(spread, (each) => podsAt(each, labels)),
    ];
    const sums = states.map(() => 0);
    for (const kind of kinds) {
      const raw = states.map(({ facts }) => kind(facts?.labels ?? {}));
      const least = Math.min(...raw);
      const range = Math.max(...raw) - least;
      if (range > 0) raw.forEach((value, i) => (sums[i] = (sums[i] as number) + (value - least) / range));
    }
    return sums;
  }

  #takes(labels: Labels): boolean {
    const required =
      this.#request.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
    return required === undefined || isTaken(required, labels);
  }

  #nodePreference(labels: Labels): number {
    const preferred =
      this.#request.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
    return sum(preferred, ({ weight, preference }) => (isTaken([preference], labels) ? weight : 0));
  }

  /** The first of a group that asks for each other may be anywhere: nobody selects it but itself. */
  #isNeeded(labels: Labels): boolean {
    const needed = this.#needed();
    if (needed.every((each) => countAt(each, labels) > 0)) return true;
    const isFirst = needed.every(
      ({ term, places }) => places.size === 0 && isSelected(term.labelSelector, this.#own.labels),
    );
    return isFirst && needed.every(({ term }) => labels[term.topologyKey] !== undefined);
  }

  #places({ topologyKey }: { readonly topologyKey: string }, isMeant: (pod: Labels) => boolean): Places {
    const places = new Map<string, number>();
    for (const { node, neighbour } of this.#inventory.neighboursIn(this.#request.namespace))
      if (isMeant(neighbour?.labels ?? {})) countIn(places, this.#placeOf(node, topologyKey));
    return places;
  }

  /** Required anti-affinity of those that are there and select this VM. */
  #termsAgainst(): Counted[] {
    const byKey = new Map<string, Map<string, number>>();
    for (const { node, neighbour } of this.#inventory.neighboursIn(this.#request.namespace))
      for (const { labelSelector, topologyKey } of neighbour?.repels ?? []) {
        if (!isSelected(labelSelector, this.#own.labels)) continue;
        const places = byKey.get(topologyKey) ?? new Map<string, number>();
        countIn(places, this.#placeOf(node, topologyKey));
        byKey.set(topologyKey, places);
      }
    return [...byKey].map(([topologyKey, places]) => ({ term: { topologyKey }, places }));
  }

  #placeOf(node: string, topologyKey: string): string | undefined {
    return this.#inventory.node(node)?.facts?.labels[topologyKey];
  }

  /** As kube-scheduler counts: nodes that node affinity takes and that are in a place of each constraint of the kind, and their pods. */
  #spreadOf(constraint: TopologySpreadConstraint, kind: readonly TopologySpreadConstraint[]): Spread {
    const { labelSelector, topologyKey } = constraint;
    const places = new Map<string, number>();
    const placeOfNode = new Map<string, string>();
    for (const { name, facts } of this.#inventory.nodes()) {
      const labels = facts?.labels ?? {};
      const place = labels[topologyKey];
      if (place === undefined || !this.#takes(labels)) continue;
      if (kind.some((other) => labels[other.topologyKey] === undefined)) continue;
      placeOfNode.set(name, place);
      places.set(place, 0);
    }
    for (const { node, neighbour } of this.#inventory.neighboursIn(this.#request.namespace))
      if (isSelected(labelSelector, neighbour?.labels ?? {})) countIn(places, placeOfNode.get(node));
    const counts = [...places.values()];
    return { constraint, places, least: Math.min(...counts), most: Math.max(0, ...counts) };
  }
}

/** What it makes, made when it is first asked for. */
function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

interface Counted {
  readonly term: PodTerm;
  readonly places: Places;
}

interface Weighed extends Counted {
  readonly weight: number;
}

interface Spread {
  readonly constraint: TopologySpreadConstraint;
  readonly places: Places;
  /** How many are in the place with the fewest, and in the fullest. */
  readonly least: number;
  readonly most: number;
}

function weighed(
  terms: readonly { readonly weight: number; readonly podAffinityTerm: PodTerm }[] = [],
  sign: 1 | -1,
  counted: (term: PodTerm) => Counted,
): Weighed[] {
  return terms.map(({ weight, podAffinityTerm }) => ({ ...counted(podAffinityTerm), weight: sign * weight }));
}

function countIn(places: Map<string, number>, place: string | undefined): void {
  if (place !== undefined) places.set(place, (places.get(place) ?? 0) + 1);
}

function countAt({ term, places }: Counted, labels: Labels): number {
  const place = labels[term.topologyKey];
  return place === undefined ? 0 : (places.get(place) ?? 0);
}

function isSoft({ whenUnsatisfiable }: TopologySpreadConstraint): boolean {
  return whenUnsatisfiable === 'ScheduleAnyway';
}

/** A node that does not count is worse than the fullest. */
function podsAt({ constraint, places, most }: Spread, labels: Labels): number {
  return places.get(labels[constraint.topologyKey] ?? '') ?? most + 1;
}

function sum<T>(of: readonly T[], value: (one: T) => number): number {
  return of.reduce((total, one) => total + value(one), 0);
}
