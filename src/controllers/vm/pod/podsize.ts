import type { Pod, ResourceRequirements } from '../../../api/core.ts';
import { extendedResources } from '../../../api/meta.ts';
import { formatQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import { milliAmount, wholeAmount } from '../../../placement/amount.ts';
import type { VmSettings } from '../settings.ts';
import { guestResources, type MemorySettings } from './overhead.ts';
import { runnerContainer } from '../names.ts';
import { runnerStatus } from '../facts/podstate.ts';

/** What the runner's container requests. */
export interface PodSize {
  readonly cpuMilli: number;
  readonly memoryBytes: number;
}

/** What becomes of the size that was asked for last. */
export type SizeProgress =
  | { readonly kind: 'reached' }
  | { readonly kind: 'underway' }
  /** There is no room now; the kubelet tries again by itself. */
  | { readonly kind: 'deferred'; readonly message: string }
  /** The node can never give it. */
  | { readonly kind: 'infeasible'; readonly message: string };

export function sizeFor(
  effective: Pick<EffectiveSettings, 'cpu'> & MemorySettings,
  pod: Pod,
  settings: Pick<VmSettings, 'cpuOvercommit'>,
): PodSize {
  const isHardware = resourcesOf(pod).limits?.[extendedResources.kvm] !== undefined;
  return sizeOf(guestResources(effective, isHardware ? 'kvm' : 'auto', settings));
}

/** Of the pod as it is specified. */
export function podSize(pod: Pod): PodSize {
  return sizeOf(resourcesOf(pod).requests);
}

export function largerOf(one: PodSize, other: PodSize): PodSize {
  return {
    cpuMilli: Math.max(one.cpuMilli, other.cpuMilli),
    memoryBytes: Math.max(one.memoryBytes, other.memoryBytes),
  };
}

export function isSameSize(one: PodSize, other: PodSize): boolean {
  return one.cpuMilli === other.cpuMilli && one.memoryBytes === other.memoryBytes;
}

/** In the kubelet's words. Until it has seen a new size it says nothing of it, but what the container has is not that size. */
export function sizeProgress(pod: Pod, wanted: PodSize): SizeProgress {
  const { conditions = [] } = pod.status ?? {};
  const { generation = 0 } = pod.metadata;
  const said = (type: string) =>
    conditions.find(
      (each) =>
        each.type === type &&
        each.status === 'True' &&
        // What it said of the size before says nothing of this one.
        (each.observedGeneration ?? generation) >= generation,
    );
  const pending = said('PodResizePending');
  if (pending !== undefined) {
    const message = pending.message ?? pending.reason ?? '';
    return { kind: pending.reason === 'Infeasible' ? 'infeasible' : 'deferred', message };
  }
  const actual = sizeOf(runnerStatus(pod)?.resources?.requests);
  const isReached = actual.cpuMilli >= wanted.cpuMilli && actual.memoryBytes >= wanted.memoryBytes;
  return isReached && said('PodResizeInProgress') === undefined ? { kind: 'reached' } : { kind: 'underway' };
}

/** A patch of the pod's subresource `resize`. */
export function resizePatch({ metadata: { uid } }: Pod, { cpuMilli, memoryBytes }: PodSize): object {
  const memory = formatQuantity(memoryBytes);
  const resources = { requests: { cpu: `${cpuMilli}m`, memory }, limits: { memory } };
  return { metadata: { uid }, spec: { containers: [{ name: runnerContainer, resources }] } };
}

function resourcesOf(pod: Pod): ResourceRequirements {
  return pod.spec.containers.find(({ name }) => name === runnerContainer)?.resources ?? {};
}

function sizeOf(requests: Readonly<Record<string, string>> | undefined): PodSize {
  return { cpuMilli: milliAmount(requests, 'cpu'), memoryBytes: wholeAmount(requests, 'memory') };
}
