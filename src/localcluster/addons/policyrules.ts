/**
 * Kubernetes' network policies as one table of nftables. Pure. Semantics: https://kubernetes.io/docs/concepts/services-networking/network-policies/.
 * Rules see packets after kube-proxy has chosen an endpoint, so that they name pods, never Services; connections that
 * are established stay.
 */
import type {
  V1IPBlock,
  V1NetworkPolicyPeer,
  V1NetworkPolicyPort,
  V1NetworkPolicySpec,
} from '@kubernetes/client-node';
import type { Namespace, Pod } from '../../api/core.ts';
import type { ObjectMeta } from '../../api/object.ts';
import { isSelected } from '../../api/selector.ts';

/** The generated type calls `from` `_from`, which is not its name on the wire. */
interface IngressRule {
  readonly from?: readonly V1NetworkPolicyPeer[];
  readonly ports?: readonly V1NetworkPolicyPort[];
}

export interface NetworkPolicy {
  metadata: ObjectMeta;
  spec: Omit<V1NetworkPolicySpec, 'ingress'> & { ingress?: readonly IngressRule[] };
}

/** What the policies of a cluster depend on. */
export interface World {
  readonly pods: readonly Pod[];
  readonly namespaces: readonly Namespace[];
  readonly policies: readonly NetworkPolicy[];
}

const policyTable = 'svc3-network-policies';

type Direction = 'ingress' | 'egress';

/** One side of a connection: pods of the cluster, a block of addresses, or everything. */
type Side =
  | { readonly kind: 'pods'; readonly pods: readonly Pod[] }
  | { readonly kind: 'block'; readonly block: V1IPBlock }
  | { readonly kind: 'any' };

/** The text for `nft -f`; it replaces what it said before at once. The same world gives the same text. */
export function rulesetOf(world: World): string {
  const directions = ['egress', 'ingress'] as const;
  const jumps = directions.flatMap((direction) => jumpTo(direction, isolatedPods(world, direction)));
  const chains = directions.map((direction) => {
    const rules = world.policies.flatMap((policy) => rulesOf(world, policy, direction)).toSorted();
    const lines = [...new Set(rules), 'reject with icmpx admin-prohibited'];
    return `  chain ${direction} {\n${lines.map((line) => `    ${line}\n`).join('')}  }\n`;
  });
  return `add table inet ${policyTable}
delete table inet ${policyTable}
table inet ${policyTable} {
${chains.join('')}  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
${jumps.map((line) => `    ${line}\n`).join('')}  }
}
`;
}

/** Pods that a policy selects for this direction: for them everything is refused that no policy allows. */
function isolatedPods(world: World, direction: Direction): readonly Pod[] {
  return world.policies
    .filter((policy) => appliesTo(policy, direction))
    .flatMap((policy) => selectedPods(world, policy));
}

function jumpTo(direction: Direction, pods: readonly Pod[]): string[] {
  if (pods.length === 0) return [];
  return [`${matchPods(pods, direction === 'ingress' ? 'daddr' : 'saddr')} jump ${direction}`];
}

/** Without policyTypes: ingress always, egress where there are rules for it. */
function appliesTo({ spec }: NetworkPolicy, direction: Direction): boolean {
  if (spec.policyTypes !== undefined && spec.policyTypes.length > 0)
    return spec.policyTypes.includes(direction === 'ingress' ? 'Ingress' : 'Egress');
  return direction === 'ingress' || (spec.egress?.length ?? 0) > 0;
}

function selectedPods(world: World, { metadata, spec }: NetworkPolicy): readonly Pod[] {
  return networkPods(world).filter(
    (pod) =>
      pod.metadata.namespace === metadata.namespace &&
      isSelected(spec.podSelector ?? {}, pod.metadata.labels),
  );
}

/** Pods with an address of their own. */
function networkPods({ pods }: World): readonly Pod[] {
  return pods.filter(
    ({ spec, status }) =>
      spec.hostNetwork !== true &&
      status?.podIP !== undefined &&
      status.phase !== 'Succeeded' &&
      status.phase !== 'Failed',
  );
}

function rulesOf(world: World, policy: NetworkPolicy, direction: Direction): string[] {
  if (!appliesTo(policy, direction)) return [];
  const selected = selectedPods(world, policy);
  if (selected.length === 0) return [];
  const own: Side = { kind: 'pods', pods: selected };
  const rules =
    direction === 'ingress'
      ? (policy.spec.ingress ?? []).map((rule) => ({ peers: rule.from, ports: rule.ports }))
      : (policy.spec.egress ?? []).map((rule) => ({ peers: rule.to, ports: rule.ports }));
  return rules.flatMap(({ peers, ports }) =>
    sidesOf(world, policy, peers).flatMap((peer) =>
      direction === 'ingress' ? linesOf(world, peer, own, ports) : linesOf(world, own, peer, ports),
    ),
  );
}

function sidesOf(
  world: World,
  policy: NetworkPolicy,
  peers: readonly V1NetworkPolicyPeer[] | undefined,
): Side[] {
  if (peers === undefined || peers.length === 0) return [{ kind: 'any' }];
  return peers.map((peer) =>
    peer.ipBlock === undefined
      ? { kind: 'pods', pods: peerPods(world, policy, peer) }
      : { kind: 'block', block: peer.ipBlock },
  );
}

/** Without a namespace selector the policy's own namespace is meant. */
function peerPods(world: World, policy: NetworkPolicy, peer: V1NetworkPolicyPeer): readonly Pod[] {
  const { namespaceSelector, podSelector } = peer;
  const namespaces =
    namespaceSelector === undefined
      ? [policy.metadata.namespace]
      : world.namespaces
          .filter(({ metadata }) => isSelected(namespaceSelector, metadata.labels))
          .map(({ metadata }) => metadata.name);
  return networkPods(world).filter(
    ({ metadata }) =>
      namespaces.includes(metadata.namespace) && isSelected(podSelector ?? {}, metadata.labels),
  );
}

function linesOf(
  world: World,
  source: Side,
  destination: Side,
  ports: readonly V1NetworkPolicyPort[] | undefined,
): string[] {
  const from = matchSide(source, 'saddr');
  if (from === undefined) return [];
  const line = (to: Side, port: string): string[] => {
    const match = matchSide(to, 'daddr');
    return match === undefined ? [] : [[from, match, port, 'return'].filter(Boolean).join(' ')];
  };
  if (ports === undefined || ports.length === 0) return line(destination, '');
  return ports.flatMap((port) =>
    typeof port.port === 'string'
      ? namedPorts(world, destination, port).flatMap(({ pods, match }) => line({ kind: 'pods', pods }, match))
      : line(destination, matchPort(port)),
  );
}

/** A name is another number in every pod, and none outside of pods. */
function namedPorts(
  world: World,
  destination: Side,
  { port, protocol = 'TCP' }: V1NetworkPolicyPort,
): { pods: Pod[]; match: string }[] {
  if (destination.kind === 'block') return [];
  const pods = destination.kind === 'pods' ? destination.pods : networkPods(world);
  const byNumber = Map.groupBy(
    pods.flatMap((pod) => {
      const open = pod.spec.containers.flatMap((container) => container.ports ?? []);
      const named = open.filter((each) => each.name === port && (each.protocol ?? 'TCP') === protocol);
      return named.map(({ containerPort }) => ({ pod, number: containerPort }));
    }),
    ({ number }) => number,
  );
  return [...byNumber].map(([number, found]) => ({
    pods: found.map(({ pod }) => pod),
    match: matchPort({ port: number, protocol }),
  }));
}

function matchPort({ port, endPort, protocol = 'TCP' }: V1NetworkPolicyPort): string {
  const name = protocol.toLowerCase();
  if (port === undefined) return `meta l4proto ${name}`;
  return `${name} dport ${endPort === undefined ? port : `${port}-${endPort}`}`;
}

/** Undefined where nothing can match. */
function matchSide(side: Side, field: 'saddr' | 'daddr'): string | undefined {
  if (side.kind === 'any') return '';
  if (side.kind === 'pods') return side.pods.length === 0 ? undefined : matchPods(side.pods, field);
  const { cidr, except = [] } = side.block;
  if (cidr.includes(':')) return undefined;
  const block = `ip ${field} ${cidr}`;
  return except.length === 0 ? block : `${block} ip ${field} != { ${except.join(', ')} }`;
}

function matchPods(pods: readonly Pod[], field: 'saddr' | 'daddr'): string {
  const addresses = new Set(pods.map(({ status }) => status?.podIP ?? ''));
  return `ip ${field} { ${[...addresses].toSorted().join(', ')} }`;
}
