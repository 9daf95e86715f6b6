import type { Taint } from '../api/core.ts';

export interface Toleration {
  readonly key?: string | undefined;
  readonly operator?: string | undefined;
  readonly value?: string | undefined;
  readonly effect?: string | undefined;
}

/** The cordon of a node comes as a taint too; it is told as `unschedulable` instead. */
const cordonTaint = 'node.kubernetes.io/unschedulable';

/** Put on by people, of a node that is off. */
const outOfService = 'node.kubernetes.io/out-of-service';

const passing = /^node\.(cloudprovider\.)?kubernetes\.io\//;

/** Kubernetes gives every pod these two for 300 seconds (admission plugin DefaultTolerationSeconds). */
const everyPod: readonly Toleration[] = [
  { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' },
  { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute' },
];

/** core/v1 semantics: an empty key with Exists matches everything, an empty effect matches every effect. */
export function tolerates(toleration: Toleration, taint: Taint): boolean {
  if (toleration.effect !== undefined && toleration.effect !== '' && toleration.effect !== taint.effect)
    return false;
  const exists = toleration.operator === 'Exists';
  if (toleration.key === undefined || toleration.key === '') return exists;
  if (toleration.key !== taint.key) return false;
  return exists || (toleration.value ?? '') === (taint.value ?? '');
}

/** Whether a pod with these tolerations may be put on a node with these taints. */
export function toleratesAll(taints: readonly Taint[], tolerations: readonly Toleration[]): boolean {
  return taints.every(
    (taint) =>
      taint.effect === 'PreferNoSchedule' ||
      (taint.key === cordonTaint && taint.effect === 'NoSchedule') ||
      everyPod.some((toleration) => tolerates(toleration, taint)) ||
      tolerations.some((toleration) => tolerates(toleration, taint)),
  );
}

/** How many soft taints (PreferNoSchedule) the tolerations leave: fewer is better. */
export function softTaints(taints: readonly Taint[], tolerations: readonly Toleration[]): number {
  return taints.filter(
    (taint) =>
      taint.effect === 'PreferNoSchedule' && !tolerations.some((toleration) => tolerates(toleration, taint)),
  ).length;
}

/** Without those that Kubernetes itself puts on a node and takes off again: by its conditions, and until its cloud provider has set it up or while that says that it is shut down. */
export function lastingTaints(taints: readonly Taint[]): Taint[] {
  return taints.filter(({ key }) => key === outOfService || !passing.test(key));
}
