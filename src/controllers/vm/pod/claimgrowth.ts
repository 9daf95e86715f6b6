import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { persistentVolumeClaims } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { isSvc3Error, messageOf } from '../../../errors.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import type { VmMemory } from '../vmmemory.ts';
import { typed } from '../typed.ts';
import { bootNeeds, grownStorage } from '../facts/claim.ts';

export interface ClaimGrowthParts {
  readonly client: Pick<KubeClient, 'patch'>;
  readonly recorder: EventRecorder;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic: () => number;
}

/** What was asked for of a claim, until the cache shows it; with why it was refused. */
interface Asked {
  readonly claimUid: string;
  readonly storage: string;
  readonly refusal?: { readonly message: string; readonly at: number };
}

/** A quota may be raised, and a StorageClass may learn to expand, of which nobody tells: so long until it is tried again, in milliseconds. */
const askAgainMs = 60_000;

/** What becomes of the claim of a disk that is to be larger. */
export interface ClaimRoom {
  /** Why it does not grow. */
  readonly refusal?: string | undefined;
  /** Milliseconds until it is looked at again. */
  readonly againMs?: number;
}

const enough: ClaimRoom = {};

/** The cache will show it, of which no event tells the VM. */
const underway: ClaimRoom = { againMs: 2_000 };

/** Whether the disk is to wait: on a claim that does not grow it would come to an end before its size. */
export function isClaimTooSmall(vm: Vm, claim: PersistentVolumeClaim | undefined): boolean {
  return grownStorage(vm, claim, bootNeeds(vm)) !== undefined;
}

/** Grows the claims of Persistent disks: the volume first, then its runner grows the disk on it. */
export class ClaimGrowth implements VmMemory {
  readonly #parts: ClaimGrowthParts;
  readonly #asked = new Map<string, Asked>();

  constructor(parts: ClaimGrowthParts) {
    this.#parts = parts;
  }

  /** What refuses is told of in an event, once for each size and message. */
  async grow(vm: Vm, claim: PersistentVolumeClaim | undefined): Promise<ClaimRoom> {
    const vmUid = vm.metadata.uid;
    const storage = grownStorage(vm, claim, bootNeeds(vm));
    if (claim === undefined || storage === undefined) return enough;
    const before = this.#of(vmUid, claim, storage);
    if (before !== undefined && before.refusal === undefined) return underway;
    const waitMs = this.#waitMs(before);
    if (waitMs > 0) return { refusal: before?.refusal?.message, againMs: waitMs };
    try {
      await this.#ask(claim, storage);
      this.#asked.set(vmUid, { claimUid: claim.metadata.uid, storage });
      return underway;
    } catch (error) {
      if (!isSvc3Error(error, 'Forbidden', 'Invalid')) throw error;
      const message = messageOf(error);
      const refusal = { message, at: this.#parts.monotonic() };
      this.#asked.set(vmUid, { claimUid: claim.metadata.uid, storage, refusal });
      if (before?.refusal?.message !== message)
        this.#parts.recorder.event(typed(vm), { type: 'Warning', reason: 'VolumeNotGrown', message });
      return { refusal: message, againMs: askAgainMs };
    }
  }

  forget(vmUid: string): void {
    this.#asked.delete(vmUid);
  }

  /** A claim that was lost and made anew is another, as small as the VM's was at first. */
  #of(vmUid: string, claim: PersistentVolumeClaim, storage: string): Asked | undefined {
    const asked = this.#asked.get(vmUid);
    return asked?.claimUid === claim.metadata.uid && asked.storage === storage ? asked : undefined;
  }

  #waitMs(asked: Asked | undefined): number {
    if (asked?.refusal === undefined) return 0;
    return Math.max(0, asked.refusal.at + askAgainMs - this.#parts.monotonic());
  }

  async #ask({ metadata: { name, namespace, uid } }: PersistentVolumeClaim, storage: string): Promise<void> {
    const body = { metadata: { uid }, spec: { resources: { requests: { storage } } } };
    await this.#parts.client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
  }
}
