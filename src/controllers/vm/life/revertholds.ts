import { imageAnnotations, type Image } from '../../../api/image.ts';
import type { Pod } from '../../../api/core.ts';
import { images, vms } from '../../../api/resources.ts';
import type { EffectiveSettings, Vm } from '../../../api/vm.ts';
import { ignoring } from '../../../controller/ignoring.ts';
import type { LiveList } from '../../../controller/livelists.ts';
import { msUntil } from '../../../controller/servedtime.ts';
import { longestMessage } from '../../../api/condition.ts';
import { shortened } from '../../../errors.ts';
import { resourcePath } from '../../../kube/path.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import { isSaveAbandoned, requestOf, wantsMemory, workId } from '../../image/names.ts';
import { awaitedImages, promisedImages } from '../../image/saves.ts';
import { untilSaved } from '../decide.ts';
import { isPersistent } from '../facts/claim.ts';
import { isRunnerUp } from '../facts/podstate.ts';
import { isDue, isMadeWith } from '../facts/requests.ts';
import type { RevertHold } from '../runner/power.ts';
import { typed } from '../typed.ts';
import type { VmMemory } from '../vmmemory.ts';

export interface RevertHoldParts {
  readonly client: Pick<KubeClient, 'patch' | 'request'>;
  readonly recorder: EventRecorder;
  readonly observer: {
    images(namespace: string): readonly Image[];
    /** How long a revert waits until the disk is saved, in milliseconds. */
    readonly saveWaitMs: number;
  };
  /** Images of a namespace as kube-apiserver has them now. */
  readonly liveImages: LiveList<Image>;
  /** Wall clock, for deadlines. */
  now(): Date;
}

/** What is known of the revert that a VM has not been given yet. */
interface Pending {
  /** Since when this process has held it, in milliseconds since 1970. */
  since: number | undefined;
  /** Generation of the spec before which no Image was promised the disk: who asks later asks for what it is after the revert. */
  released: number | undefined;
}

/** A VM whose pod lives, and its settings. */
interface Kept {
  readonly vm: Vm;
  readonly pod: Pod;
  readonly effective: EffectiveSettings;
}

/**
 * Which reverts wait for Images that were asked for before, and for how long (docs/adr/0014-a-vm-is-deleted-when-its-disk-is-saved.md). What is kept here
 * may be lost at any time: then all is asked once more, and the time begins anew.
 */
export class RevertHolds implements VmMemory {
  readonly #parts: RevertHoldParts;
  readonly #pending = new Map<string, Pending>();

  constructor(parts: RevertHoldParts) {
    this.#parts = parts;
  }

  forget(vmUid: string): void {
    this.#pending.delete(vmUid);
  }

  /**
   * What a revert that is asked for waits for; undefined where there is none, no runner could be asked for it yet, or nobody waits for the disk as it is.
   * The cache may not know of an Image yet: before a revert kube-apiserver is asked, once.
   *
   * @throws Svc3Error where kube-apiserver does not answer: then the runner is to be told of no revert
   */
  async of({ vm, pod, effective }: Kept): Promise<RevertHold | undefined> {
    const { uid, namespace, generation } = vm.metadata;
    const hasNewDisk = !isPersistent(effective) && isMadeWith(pod, 'revertRequest', vm.spec.revertRequest);
    if (!isDue(vm, 'revertRequest') || hasNewDisk) {
      this.forget(uid);
      return undefined;
    }
    // Its time to be saved is counted from when there is somebody to save it.
    if (!isRunnerUp(pod)) return undefined;
    const pending = this.#of(uid);
    if (pending.released !== undefined && pending.released === generation) return undefined;
    const { observer, liveImages } = this.#parts;
    const cached = promisedImages(vm, observer.images(namespace));
    const promised = cached.length > 0 ? cached : promisedImages(vm, await liveImages(namespace));
    const hold = promised.length === 0 ? undefined : await this.#hold(vm, promised, pending);
    if (hold === undefined) pending.released = generation;
    return hold;
  }

  #of(vmUid: string): Pending {
    const known = this.#pending.get(vmUid) ?? { since: undefined, released: undefined };
    this.#pending.set(vmUid, known);
    return known;
  }

  async #hold(vm: Vm, promised: readonly Image[], pending: Pending): Promise<RevertHold | undefined> {
    const { client, observer, now } = this.#parts;
    const { name, namespace } = vm.metadata;
    const nowMs = now().getTime();
    pending.since ??= nowMs;
    const endsAt = pending.since + observer.saveWaitMs;
    const waiting = awaitedImages(vm, promised);
    const isInTime =
      waiting.length > 0 &&
      (await msUntil(client, resourcePath(vms, { name, namespace }), { endsAt, now: nowMs })) > 0;
    if (!isInTime) return this.#giveUp(vm);
    const message = `the revert waits ${untilSaved(namesOf(waiting), endsAt)}`;
    return { message, needsGuest: waiting.some(wantsMemory) };
  }

  /**
   * The Images are told before the disk is another one, and refuse themselves: a pass over one may be about to have the disk copied, and none is under way
   * once it has.
   */
  async #giveUp(vm: Vm): Promise<RevertHold | undefined> {
    const { liveImages, recorder } = this.#parts;
    const abandoned = promisedImages(vm, await liveImages(vm.metadata.namespace));
    if (abandoned.length === 0) return undefined;
    const untold = abandoned.filter((image) => !isSaveAbandoned(image));
    for (const image of untold) await this.#tell(image);
    const message = shortened(
      `the VM is reverted although its disk was not saved for ${namesOf(abandoned).join(', ')}`,
      longestMessage,
    );
    if (untold.length > 0) recorder.event(typed(vm), { type: 'Warning', reason: 'SaveAbandoned', message });
    return { message, needsGuest: false };
  }

  async #tell(image: Image): Promise<void> {
    const { name, namespace, uid } = image.metadata;
    const annotations = { [imageAnnotations.saveAbandoned]: workId(image, requestOf(image) ?? '') };
    const body = { metadata: { uid, annotations } };
    // Another one of its name, or none: the next pass looks again.
    await ignoring(
      ['NotFound', 'Conflict'],
      this.#parts.client.patch(images, { name, namespace }, { type: 'merge', body }),
    );
  }
}

function namesOf(some: readonly Image[]): string[] {
  return some.map(({ metadata }) => metadata.name).sort();
}
