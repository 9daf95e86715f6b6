import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '../../../api/core.ts';
import { pods } from '../../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { moreVideoBytes } from '../../../api/videomemory.ts';
import { isOfSize, needsAnotherPod } from '../../../api/vmchanges.ts';
import { isRefusal } from '../../../controller/refusal.ts';
import { messageOf } from '../../../errors.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { Inventory } from '../../../placement/inventory.ts';
import { reasonsOfMissing } from '../../../placement/reasons.ts';
import {
  CPU,
  emptyVector,
  MEMORY,
  missing,
  needOf,
  type ResourceVector,
} from '../../../placement/resources.ts';
import type { VmMemory } from '../vmmemory.ts';
import type { Resolved } from '../resolve/resolve.ts';
import type { VmSettings } from '../settings.ts';
import { annotatedSettings } from '../facts/annotatedsettings.ts';
import { isPersistent } from '../facts/claim.ts';
import {
  isSameSize,
  largerOf,
  podSize,
  type PodSize,
  resizePatch,
  sizeFor,
  sizeProgress,
} from './podsize.ts';

/** Whether the pod has room for the guest as it is to be started next. */
export type PodRoom =
  | { readonly kind: 'enough' }
  /** The kubelet is at it; its word wakes the VM. */
  | { readonly kind: 'underway' }
  | { readonly kind: 'refused'; readonly message: string };

export interface PodResizeParts {
  readonly client: KubeClient;
  readonly inventory: Inventory;
  readonly settings: Pick<VmSettings, 'cpuOvercommit'>;
  /** Milliseconds of a clock that never jumps. */
  now(): number;
}

interface Asked {
  readonly podUid: string;
  readonly size: PodSize;
  readonly at: number;
  /** Why it was refused, and whether that is for good. */
  readonly refusal?: { readonly message: string; readonly isFinal: boolean };
}

/** What was refused, or does not show in the cache, is asked for again after this time, in milliseconds. */
const askAgainMs = 60_000;

/** How soon the kubelet is looked after that has not begun, in milliseconds: its first word may be lost with a watch. */
const lookMs = 2_000;

const enough: PodRoom = { kind: 'enough' };

/**
 * Gives the pod of an Ephemeral VM the size that changes of cpu, memory and display ask for, before the guest is started with them: while they
 * wait the larger of both, and when the guest has started what it has now. Its disk is in the pod, which no other replaces. The pod of a
 * Persistent one that stays where its guest is started next grows for a larger screen, and has that until there is another.
 */
export class PodResize implements VmMemory {
  readonly #parts: PodResizeParts;
  readonly #asked = new Map<string, Asked>();

  constructor(parts: PodResizeParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    this.dropRequest(vmUid);
  }

  /** Forgets what was asked for the VM: it has no pod, or one of the size that it was made with. */
  dropRequest(vmUid: string): void {
    if (!this.#asked.delete(vmUid)) return;
    this.#parts.inventory.forget(claimOf(vmUid));
  }

  async provide(vm: Vm, pod: Pod, { effective, atBoot, waiting = [] }: Resolved): Promise<PodRoom> {
    const { settings } = this.#parts;
    const inForce = sizeFor(effective, pod, settings);
    const wanted = largerOf(inForce, sizeFor(atBoot ?? effective, pod, settings));
    const isAsNeeded = () =>
      isPersistent(effective) || isSameSize(podSize(pod), inForce) || this.#isAsMade(pod, inForce);
    const isToStay = isSameSize(wanted, inForce) ? isAsNeeded() : isToBeReplaced(effective, waiting);
    // Before it is on a node nobody knows what room there is, and no guest is started.
    if (pod.spec.nodeName === undefined || isToStay) {
      this.dropRequest(vm.metadata.uid);
      return enough;
    }
    const present = podSize(pod);
    const asked = this.#askedOf(vm, pod, wanted);
    if (asked?.refusal !== undefined) {
      if (asked.refusal.isFinal && !isSameSize(present, inForce)) await this.#putBack(pod, inForce);
      return { kind: 'refused', message: asked.refusal.message };
    }
    if (!isSameSize(present, wanted)) return this.#ask(vm, pod, wanted, asked !== undefined);
    this.#parts.inventory.forget(claimOf(vm.metadata.uid));
    return isSameSize(wanted, inForce) ? enough : this.#progress(vm, pod, wanted);
  }

  /**
   * One that nobody has resized is left as it is, also by a version that would make it otherwise: a pod's generation grows with changes of
   * its spec.
   */
  #isAsMade(pod: Pod, inForce: PodSize): boolean {
    const made = annotatedSettings(pod);
    if (made === undefined || (pod.metadata.generation ?? 1) > 1) return false;
    return isSameSize(sizeFor(made, pod, this.#parts.settings), inForce);
  }

  #askedOf(vm: Vm, { metadata }: Pod, wanted: PodSize): Asked | undefined {
    const asked = this.#asked.get(vm.metadata.uid);
    if (asked?.podUid !== metadata.uid || !isSameSize(asked.size, wanted)) return undefined;
    const isOver = this.#parts.now() - asked.at >= askAgainMs && asked.refusal?.isFinal !== true;
    return isOver ? undefined : asked;
  }

  #progress(vm: Vm, pod: Pod, wanted: PodSize): PodRoom {
    const progress = sizeProgress(pod, wanted);
    switch (progress.kind) {
      case 'reached':
        return enough;
      case 'deferred':
        return { kind: 'refused', message: progress.message };
      case 'infeasible':
        // Nobody else gets what the pod asks for in vain: the next pass puts it back.
        return this.#refused(vm, pod, wanted, { message: progress.message, isFinal: true });
      default:
        return { kind: 'underway' };
    }
  }

  async #ask(vm: Vm, pod: Pod, wanted: PodSize, isAsked: boolean): Promise<PodRoom> {
    if (isAsked) return { kind: 'underway' };
    const { inventory } = this.#parts;
    const claim = claimOf(vm.metadata.uid);
    // What it was last told to be must not stand in its own way.
    inventory.forget(claim);
    const growth = growthOf(podSize(pod), wanted);
    const node = pod.spec.nodeName ?? '';
    const lacking = this.#lacking(node, growth);
    if (lacking.length > 0) {
      const message = `node ${node} has no room: ${lacking.join(', ')}`;
      return this.#refused(vm, pod, wanted, { message, isFinal: false });
    }
    // Counts at once: the next VM that is placed must not be given the same room.
    inventory.assume(claim, { node, requests: growth, ports: [] });
    try {
      await this.#resize(pod, wanted);
    } catch (error) {
      inventory.forget(claim);
      if (!isRefusal(error)) throw error;
      return this.#refused(vm, pod, wanted, { message: messageOf(error), isFinal: false });
    }
    this.#asked.set(vm.metadata.uid, { podUid: pod.metadata.uid, size: wanted, at: this.#parts.now() });
    return { kind: 'underway' };
  }

  #lacking(node: string, growth: ResourceVector): string[] {
    const state = this.#parts.inventory.node(node);
    const mask = state === undefined ? 0 : missing(state.free, needOf(growth));
    return mask === 0 ? [] : reasonsOfMissing(mask);
  }

  /** Where that is refused, too, the pod goes on asking in vain for what no node has, which the guest does not feel. */
  async #putBack(pod: Pod, size: PodSize): Promise<void> {
    try {
      await this.#resize(pod, size);
    } catch (error) {
      if (!isRefusal(error)) throw error;
    }
  }

  async #resize(pod: Pod, size: PodSize): Promise<void> {
    const { name, namespace } = pod.metadata;
    const body = resizePatch(pod, size);
    await this.#parts.client.patch(
      pods,
      { name, namespace },
      { type: 'strategic', body },
      { subresource: 'resize' },
    );
  }

  #refused(vm: Vm, pod: Pod, size: PodSize, refusal: NonNullable<Asked['refusal']>): PodRoom {
    this.#asked.set(vm.metadata.uid, { podUid: pod.metadata.uid, size, at: this.#parts.now(), refusal });
    return { kind: 'refused', message: refusal.message };
  }
}

/** What a boot in the pod has: without room for another CPU, memory and larger screen, those in force. */
export function bootableSettings(
  { effective, atBoot }: Pick<Resolved, 'effective' | 'atBoot'>,
  { kind }: PodRoom,
): EffectiveSettings | undefined {
  if (atBoot === undefined || kind === 'enough') return atBoot;
  const { cpu, memory } = effective;
  const { display: screen, ...others } = atBoot;
  const display = isLargerScreen(effective, atBoot) ? effective.display : screen;
  const bootable = { ...others, cpu, memory, ...(display === undefined ? {} : { display }) };
  return isDeepStrictEqual(bootable, effective) ? undefined : bootable;
}

/** Fields of spec whose changes a boot without room for them does not have. */
export function fieldsWithoutRoom({ effective, atBoot, waiting = [] }: Resolved): readonly string[] {
  const isLarger = atBoot !== undefined && isLargerScreen(effective, atBoot);
  return waiting.filter((field) => isOfSize(field) || (field === 'display' && isLarger));
}

function isLargerScreen(effective: EffectiveSettings, atBoot: EffectiveSettings): boolean {
  return moreVideoBytes(atBoot) > moreVideoBytes(effective);
}

function isToBeReplaced(effective: EffectiveSettings, waiting: readonly string[]): boolean {
  return isPersistent(effective) && waiting.some((field) => needsAnotherPod(field, { isPersistent: true }));
}

/** Milliseconds after which the room is looked at again; undefined where events tell everything. */
export function roomPollMs({ kind }: PodRoom): number | undefined {
  if (kind === 'enough') return undefined;
  return kind === 'underway' ? lookMs : askAgainMs;
}

/** Of what is assumed for a VM beside its pod. */
function claimOf(vmUid: string): string {
  return `${vmUid}/resize`;
}

function growthOf(present: PodSize, wanted: PodSize): ResourceVector {
  const vector = emptyVector();
  vector[CPU] = Math.max(0, wanted.cpuMilli - present.cpuMilli);
  vector[MEMORY] = Math.max(0, wanted.memoryBytes - present.memoryBytes);
  return vector;
}
