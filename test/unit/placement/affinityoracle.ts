/**
 * Affinity and spread as the documentation of Kubernetes tells them, node by node and pod by pod; shares no code with the product.
 */
import type { Neighbour, NodeFacts } from '../../../src/placement/facts.ts';
import type { PlacementRequest } from '../../../src/placement/place.ts';

type Labels = Readonly<Record<string, string>>;

interface Expression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[] | undefined;
}

interface Selector {
  readonly matchLabels?: Labels | undefined;
  readonly matchExpressions?: readonly Expression[] | undefined;
}

export interface Somebody {
  readonly node: string;
  readonly neighbour?: Neighbour;
}

const operators: Record<string, (value: string | undefined, values: readonly string[]) => boolean> = {
  In: (value, values) => values.some((one) => one === value),
  NotIn: (value, values) => values.every((one) => one !== value),
  Exists: (value) => value !== undefined,
  DoesNotExist: (value) => value === undefined,
  Gt: (value, [bound]) => Number(value) > Number(bound),
  Lt: (value, [bound]) => Number(value) < Number(bound),
};

const fulfils = (labels: Labels, { key, operator, values }: Expression): boolean =>
  operators[operator]!(labels[key], values ?? []);

const selects = (selector: Selector | undefined, labels: Labels): boolean =>
  selector !== undefined &&
  Object.keys(selector.matchLabels ?? {}).every((key) => selector.matchLabels![key] === labels[key]) &&
  (selector.matchExpressions ?? []).every((one) => fulfils(labels, one));

export class AffinityOracle {
  readonly #nodes: readonly NodeFacts[];
  readonly #pods: readonly { labels: Labels; repels: Neighbour['repels']; at: Labels }[];
  readonly #request: PlacementRequest;

  constructor(nodes: readonly NodeFacts[], taken: readonly Somebody[], request: PlacementRequest) {
    this.#nodes = nodes;
    this.#request = request;
    this.#pods = taken.flatMap(({ node, neighbour }) => {
      const at = nodes.find(({ name }) => name === node)?.labels;
      if (neighbour === undefined || at === undefined || neighbour.namespace !== request.namespace) return [];
      return [{ labels: neighbour.labels, repels: neighbour.repels, at }];
    });
  }

  #isTaken({ labels }: NodeFacts): boolean {
    const required = this.#request.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
    if (required === undefined) return true;
    return required.nodeSelectorTerms.some((term) =>
      term.matchExpressions.every((one) => fulfils(labels, one)),
    );
  }

  againstNode(node: NodeFacts): string[] {
    return this.#isTaken(node) ? [] : ["node(s) didn't match Pod's node affinity/selector"];
  }

  /** How many such pods are in the place of the node. */
  #near(node: Labels, key: string, isMeant: (labels: Labels) => boolean): number {
    return this.#pods.filter(
      ({ labels, at }) => isMeant(labels) && at[key] !== undefined && at[key] === node[key],
    ).length;
  }

  /** The nodes that count for spread constraints of a kind: node affinity takes them, and they have all keys. */
  #spreadOver(kind: string): NodeFacts[] {
    const constraints = this.#request.topologySpreadConstraints.filter(
      (one) => one.whenUnsatisfiable === kind,
    );
    return this.#nodes.filter(
      (node) =>
        this.#isTaken(node) && constraints.every(({ topologyKey }) => node.labels[topologyKey] !== undefined),
    );
  }

  /** How many such pods are on counted nodes of the place. */
  #podsAt(node: Labels, key: string, isMeant: (labels: Labels) => boolean, kind: string): number {
    const counted = new Set(this.#spreadOver(kind).map(({ labels }) => labels));
    return this.#pods.filter(({ labels, at }) => isMeant(labels) && counted.has(at) && at[key] === node[key])
      .length;
  }

  againstPods({ labels: node }: NodeFacts): string[] {
    const { affinity, labels, topologySpreadConstraints } = this.#request;
    for (const { whenUnsatisfiable, topologyKey, labelSelector, maxSkew } of topologySpreadConstraints) {
      if (whenUnsatisfiable !== 'DoNotSchedule') continue;
      if (node[topologyKey] === undefined)
        return ["node(s) didn't match pod topology spread constraints (missing required label)"];
      const isMeant = (other: Labels) => selects(labelSelector, other);
      const counts = this.#spreadOver('DoNotSchedule').map((one) =>
        this.#podsAt(one.labels, topologyKey, isMeant, 'DoNotSchedule'),
      );
      const after = this.#podsAt(node, topologyKey, isMeant, 'DoNotSchedule') + (isMeant(labels) ? 1 : 0);
      if (after - Math.min(...counts) > maxSkew)
        return ["node(s) didn't match pod topology spread constraints"];
    }
    const needed = affinity?.podAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
    const isMeant = (other: Labels) => needed.every(({ labelSelector }) => selects(labelSelector, other));
    const isInPlace = needed.every(({ topologyKey }) => node[topologyKey] !== undefined);
    const isMet = needed.every(({ topologyKey }) => this.#near(node, topologyKey, isMeant) > 0);
    // Pods on nodes without the label count for nobody.
    const isFirst = !this.#pods.some(
      ({ labels: other, at }) =>
        isMeant(other) && needed.some(({ topologyKey }) => at[topologyKey] !== undefined),
    );
    if (!isMet && !(isInPlace && isFirst && isMeant(labels)))
      return ["node(s) didn't match pod affinity rules"];
    const avoided = affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
    for (const { labelSelector, topologyKey } of avoided)
      if (this.#near(node, topologyKey, (other) => selects(labelSelector, other)) > 0)
        return ["node(s) didn't match pod anti-affinity rules"];
    const repelled = this.#pods.some(({ repels, at }) =>
      repels.some(
        ({ labelSelector, topologyKey }) =>
          selects(labelSelector, labels) &&
          at[topologyKey] !== undefined &&
          at[topologyKey] === node[topologyKey],
      ),
    );
    return repelled ? ["node(s) didn't satisfy existing pods anti-affinity rules"] : [];
  }

  /** More is better; comparable among these nodes. */
  preferences(fitting: readonly NodeFacts[]): ReadonlyMap<NodeFacts, number> {
    const { affinity, topologySpreadConstraints } = this.#request;
    const kinds: ((node: Labels) => number)[] = [
      (node) => {
        const preferences = affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
        const met = preferences.filter(({ preference }) =>
          preference.matchExpressions.every((one) => fulfils(node, one)),
        );
        return total(met.map(({ weight }) => weight));
      },
      (node) => {
        const worth = (terms: typeof wanted): number =>
          total(
            terms.map(
              ({ weight, podAffinityTerm: { labelSelector, topologyKey } }) =>
                weight * this.#near(node, topologyKey, (other) => selects(labelSelector, other)),
            ),
          );
        const wanted = affinity?.podAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
        return (
          worth(wanted) -
          worth(affinity?.podAntiAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [])
        );
      },
      (node) =>
        -total(
          topologySpreadConstraints.map(({ topologyKey, labelSelector, whenUnsatisfiable }) => {
            const counted = this.#spreadOver(whenUnsatisfiable);
            const podsAt = (at: Labels) =>
              this.#podsAt(at, topologyKey, (other) => selects(labelSelector, other), whenUnsatisfiable);
            if (counted.some(({ labels }) => labels[topologyKey] === node[topologyKey])) return podsAt(node);
            return Math.max(0, ...counted.map(({ labels }) => podsAt(labels))) + 1;
          }),
        ),
    ];
    const sums = new Map(fitting.map((node) => [node, 0]));
    for (const kind of kinds) {
      const values = fitting.map(({ labels }) => kind(labels));
      const [least, most] = [Math.min(...values), Math.max(...values)];
      if (most === least) continue;
      fitting.forEach((node, i) => sums.set(node, sums.get(node)! + (values[i]! - least) / (most - least)));
    }
    return sums;
  }
}

const total = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0);
