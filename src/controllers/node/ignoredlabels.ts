import type { Node } from '../../api/core.ts';
import { labels, tagLabelPrefix } from '../../api/meta.ts';

/** Our labels of a Node whose value has no meaning, each as a sentence; they count as absent. */
export function ignoredLabels(node: Node): string[] {
  const present = node.metadata.labels ?? {};
  const names = Object.keys(present).toSorted((a, b) => (a < b ? -1 : 1));
  return names.flatMap((label) => {
    const value = present[label] ?? '';
    const accepted = acceptedValues(label);
    if (accepted === undefined || accepted.includes(value)) return [];
    const only = accepted.map((one) => `"${one}"`).join(' or ');
    return [`label ${label} is "${value}" and counts as absent: it has to be ${only}`];
  });
}

/** Undefined where any value does, or another sentence says so (`svc3.dev/allow-gpu-passthrough`). */
function acceptedValues(label: string): readonly string[] | undefined {
  if (label === labels.accelerator) return ['kvm', 'tcg'];
  return label.startsWith(tagLabelPrefix) ? ['true'] : undefined;
}
