import type { Affinity } from '../../../api/affinity.ts';
import type { NodeSelectorRequirement, NodeSelectorTerm, PodSpec } from '../../../api/core.ts';
import { labels, tagLabel } from '../../../api/meta.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import type { Accelerator } from '../../../placement/facts.ts';

type PodTerms = NonNullable<Affinity['podAffinity']>;
type Neighbourhood = Pick<PodSpec, 'affinity' | 'topologySpreadConstraints'>;

interface NeighbourhoodInput {
  readonly vm: Vm;
  readonly effective: EffectiveSettings;
  /** Without a node the pod goes wherever kube-scheduler finds room. */
  readonly placement: { readonly node: string | undefined; readonly accelerator: 'auto' | Accelerator };
}

/**
 * What kube-scheduler checks of node and neighbours. On a pinned pod the required terms about pods stand as well: two decisions of two
 * operators, or a pod that placement does not know, do not make them untrue. The rest was weighed when its node was chosen.
 */
export function neighbourhood(input: NeighbourhoodInput): Neighbourhood {
  const { affinity = {}, topologySpreadConstraints } = input.effective;
  const { podAffinity, podAntiAffinity } = affinity;
  const isPinned = input.placement.node !== undefined;
  const nodeAffinity = {
    ...(isPinned ? {} : affinity.nodeAffinity),
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: nodeTerms(input) },
  };
  const spec = {
    affinity: {
      nodeAffinity,
      ...(podAffinity === undefined ? {} : { podAffinity: isPinned ? required(podAffinity) : podAffinity }),
      ...(podAntiAffinity === undefined
        ? {}
        : { podAntiAffinity: isPinned ? required(podAntiAffinity) : podAntiAffinity }),
    },
    ...(isPinned || topologySpreadConstraints === undefined ? {} : { topologySpreadConstraints }),
  };
  // zod says `| undefined` of fields that may be left out; JSON has no such thing.
  return spec as Neighbourhood;
}

function required({ requiredDuringSchedulingIgnoredDuringExecution: terms }: PodTerms): PodTerms {
  return terms === undefined ? {} : { requiredDuringSchedulingIgnoredDuringExecution: terms };
}

/** The pin is a field, not the hostname label: that one can differ from the node's name. */
function nodeTerms(input: NeighbourhoodInput): NodeSelectorTerm[] {
  const { placement, vm, effective } = input;
  if (placement.node !== undefined)
    return [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [placement.node] }] }];
  // Terms are alternatives: a node is reserved for nobody, or for this namespace. An empty label reserves nothing.
  const reservations: NodeSelectorRequirement[] = [
    { key: labels.namespace, operator: 'DoesNotExist' },
    { key: labels.namespace, operator: 'In', values: ['', vm.metadata.namespace] },
  ];
  const asked = effective.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const terms = asked?.nodeSelectorTerms ?? [{ matchExpressions: [] }];
  return terms.flatMap(({ matchExpressions }) =>
    reservations.map((reservation) =>
      unpinnedTerm(input, [reservation, ...(matchExpressions as NodeSelectorRequirement[])]),
    ),
  );
}

/**
 * What placement demands of a node, as far as affinity can say it; kube-scheduler has filters for the rest. No more than it has to: a kubelet
 * that starts anew ends running pods whose terms its labels do not meet any more. A GPU needs none, its device is on enabled nodes only.
 */
function unpinnedTerm(
  { effective, placement }: NeighbourhoodInput,
  asked: readonly NodeSelectorRequirement[],
): NodeSelectorTerm {
  return {
    matchExpressions: [
      { key: 'kubernetes.io/os', operator: 'In', values: ['linux'] },
      { key: 'kubernetes.io/arch', operator: 'In', values: [effective.architecture] },
      ...asked,
      // Whoever asks for the device must not get a node that is labelled to emulate.
      ...(placement.accelerator === 'kvm'
        ? [{ key: labels.accelerator, operator: 'NotIn' as const, values: ['tcg'] }]
        : []),
      ...(effective.tagRequired === true && effective.tag !== undefined
        ? [{ key: tagLabel(effective.tag), operator: 'In' as const, values: ['true'] }]
        : []),
    ],
    ...(effective.nodeName === undefined
      ? {}
      : { matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: [effective.nodeName] }] }),
  };
}
