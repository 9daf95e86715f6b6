/** Invariant: once nothing disturbs it any more, everything comes to rest. */
import type { Node, Pod } from '../../../src/api/core.ts';
import type { Image } from '../../../src/api/image.ts';
import type { Vm } from '../../../src/api/vm.ts';
import type { Condition } from '../../../src/api/object.ts';

export interface World {
  readonly nodes: readonly Node[];
  readonly vms: readonly Vm[];
  readonly images: readonly Image[];
  /** Of svc3 itself. */
  readonly systemPods: readonly Pod[];
}

/** An object that has not come to rest. */
export interface Restless {
  /** e.g. `VM chaos-a/vm-n3-x1z`. */
  readonly object: string;
  /** Undefined for a node. */
  readonly namespace: string | undefined;
  readonly name: string;
  /** e.g. `Ready=False, Starting: …`. */
  readonly what: string;
}

/** What has not come to rest yet. */
export function notAtRest({ nodes, vms, images, systemPods }: World): Restless[] {
  return [
    ...nodes.filter((node) => !hasReady(node)).map((node) => restless('node', node, 'not Ready')),
    ...systemPods.filter((pod) => !hasReady(pod)).map((pod) => restless('pod', pod, 'not Ready')),
    ...vms.filter((vm) => !isVmAtRest(vm)).map((vm) => restless('VM', vm, wordsOf(vm.status?.conditions))),
    ...images
      .filter((image) => !isImageAtRest(image))
      .map((image) => restless('image', image, wordsOf(image.status?.conditions))),
  ];
}

function restless(kind: string, { metadata }: Node | Pod | Vm | Image, what: string): Restless {
  const { namespace, name } = metadata;
  return {
    object: `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`,
    namespace,
    name,
    what,
  };
}

function hasReady({ status }: Node | Pod): boolean {
  return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
}

/** As asked, or stalled with a reason; a guest may turn itself off. */
function isVmAtRest({ metadata, status }: Vm): boolean {
  if (metadata.deletionTimestamp !== undefined || !isObserved(metadata.generation, status)) return false;
  const ready = conditionOf(status?.conditions, 'Ready');
  return ready?.status === 'True' || ready?.reason === 'GuestStopped' || isStalled(status?.conditions);
}

/** Ready, or failed with a reason. */
function isImageAtRest({ metadata, status }: Image): boolean {
  if (metadata.deletionTimestamp !== undefined || !isObserved(metadata.generation, status)) return false;
  return conditionOf(status?.conditions, 'Ready')?.status === 'True' || isStalled(status?.conditions);
}

function isObserved(
  generation: number | undefined,
  status: { observedGeneration?: number | undefined } | undefined,
): boolean {
  return status?.observedGeneration === generation;
}

function isStalled(conditions: readonly Condition[] | undefined): boolean {
  const stalled = conditionOf(conditions, 'Stalled');
  return stalled?.status === 'True' && stalled.reason !== '';
}

function conditionOf(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

function wordsOf(conditions: readonly Condition[] | undefined): string {
  const ready = conditionOf(conditions, 'Ready');
  if (ready === undefined) return 'nothing is said about it';
  return `Ready=${ready.status}, ${ready.reason}: ${ready.message}`;
}
