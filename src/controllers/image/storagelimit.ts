import type { Pod } from '../../api/core.ts';
import { isSidecar } from '../../api/countedspec.ts';
import { parseQuantity } from '../../api/quantity.ts';

type ResourceList = Readonly<Record<string, string>>;

/**
 * Bytes of ephemeral storage beyond which the kubelet evicts a pod, as it counts them (`PodLimits` of k8s.io/component-helpers): what the limits of
 * the containers come to, or those of the start where they are more, plus the overhead. A container without a limit counts as nothing. Undefined where none has one, and
 * where it is more than a number can say: the kubelet holds the pod to none then, or to none that a node could reach.
 */
export function storageLimitOf({ spec }: Pod): number | undefined {
  let running = sumOf(spec.containers.map(limitOf));
  let sidecars: number | undefined;
  let starting: number | undefined;
  for (const container of spec.initContainers ?? []) {
    const own = limitOf(container);
    if (isSidecar(container)) {
      running = sumOf([running, own]);
      sidecars = sumOf([sidecars, own]);
    }
    starting = largestOf(starting, isSidecar(container) ? sidecars : sumOf([own, sidecars]));
  }
  const limit = largestOf(running, starting);
  if (limit === undefined) return undefined;
  const whole = limit + (storageIn(spec.overhead) ?? 0);
  return Number.isSafeInteger(whole) ? whole : undefined;
}

function limitOf({ resources }: Pod['spec']['containers'][number]): number | undefined {
  return storageIn(resources?.limits);
}

function storageIn(list: ResourceList | undefined): number | undefined {
  const text = list?.['ephemeral-storage'];
  return text === undefined ? undefined : parseQuantity(text, 'ephemeral-storage');
}

function sumOf(limits: readonly (number | undefined)[]): number | undefined {
  const known = limits.filter((limit) => limit !== undefined);
  return known.length === 0 ? undefined : known.reduce((sum, limit) => sum + limit, 0);
}

function largestOf(one: number | undefined, other: number | undefined): number | undefined {
  return one === undefined || (other !== undefined && other > one) ? other : one;
}
