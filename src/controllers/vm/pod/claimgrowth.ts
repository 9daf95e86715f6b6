import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { persistentVolumeClaims } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { isRefusal } from '../../../controller/refusal.ts';
import { messageOf } from '../../../errors.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import type { VmMemory } from '../vmmemory.ts';
import { typed } from '../typed.ts';
import { bootNeeds, type ClaimLack, claimLack, dataClaims, dataRefusal } from '../facts/claim.ts';

export interface ClaimGrowthParts {
  readonly client: Pick<KubeClient, 'patch'>;
  readonly recorder: EventRecorder;
  /** Milliseconds of a clock that never jumps. */
  readonly monotonic: () => number;
}

/** What was asked for of a claim, until its volume has it; with why it was refused. */
interface Asked {
  readonly storage: string;
  /** Since when it is waited for, or when it was refused, in milliseconds. */
  readonly at: number;
  /** How often kube-apiserver took it, while the claim asks for less again. */
  readonly times: number;
  readonly refusal?: string | undefined;
}

/**
 * A quota may be raised, and a StorageClass may learn to expand, of which nobody tells; and what was asked for may have been taken back: so long until it is
 * tried again, in milliseconds.
 */
const askAgainMs = 60_000;

/** A claim that asks for less again after it was asked so often is told of. */
const mostTimes = 2;

/** A volume that is still too small after this time, in milliseconds, is told of. `svc3 vm resize` takes what is told for why it does not grow, and waits as long. */
const slowMs = 120_000;

/** What becomes of the claim of a disk that is to be larger. */
export interface ClaimRoom {
  /** Why kube-apiserver, or somebody else who writes to it, does not let it grow. */
  readonly refusal?: string | undefined;
  /** What keeps the volume of a claim that has been asked for more. */
  readonly delay?: string;
  /** Milliseconds until it is looked at again. */
  readonly againMs?: number;
}

const enough: ClaimRoom = {};

/** The cache will show it, of which no event tells the VM. */
const underway: ClaimRoom = { againMs: 2_000 };

/** Whether the disk is to wait: on a volume that does not grow it would come to an end before its size. */
export function isClaimTooSmall(vm: Vm, claim: PersistentVolumeClaim | undefined): boolean {
  return claimLack(vm, claim, bootNeeds(vm)) !== undefined;
}

/** Grows the claims of disks: the volume first, then its runner grows the disk on it. */
export class ClaimGrowth implements VmMemory {
  readonly #parts: ClaimGrowthParts;
  /** By the UIDs of VMs and of claims: one that was lost and made anew is another, as small as the VM's was at first. */
  readonly #asked = new Map<string, Map<string, Asked>>();

  constructor(parts: ClaimGrowthParts) {
    this.#parts = parts;
  }

  /** The claim of the disk that a VM boots from. What refuses is told of in an event, once for each size and message. */
  async grow(vm: Vm, claim: PersistentVolumeClaim | undefined): Promise<ClaimRoom> {
    return this.#grow(vm, claim, bootNeeds(vm));
  }

  /**
   * The claims of the data disks as the spec has them, before the VM gets the pod that is to have them.
   *
   * @param claimOf - the claim of that name, as the cache has it
   */
  async growData(vm: Vm, claimOf: (name: string) => PersistentVolumeClaim | undefined): Promise<ClaimRoom> {
    let room = enough;
    for (const disk of dataClaims(vm)) {
      const { refusal, ...own } = await this.#grow(vm, claimOf(disk.name), disk);
      if (refusal !== undefined) return { ...own, refusal: dataRefusal(disk, refusal) };
      if ((own.againMs ?? Infinity) < (room.againMs ?? Infinity)) room = own;
    }
    return room;
  }

  forget(vmUid: string): void {
    this.#asked.delete(vmUid);
  }

  async #grow(
    vm: Vm,
    claim: PersistentVolumeClaim | undefined,
    needs: Parameters<typeof claimLack>[2],
  ): Promise<ClaimRoom> {
    const lack = claimLack(vm, claim, needs);
    if (claim === undefined || lack === undefined) return enough;
    const before = this.#of(vm, claim, lack);
    if (lack.isAsked) return this.#wait(claim, before ?? this.#remember(vm, claim, lack, {}));
    const waitMs = before === undefined ? 0 : before.at + askAgainMs - this.#parts.monotonic();
    if (before !== undefined && waitMs > 0)
      return before.refusal === undefined ? underway : { refusal: before.refusal, againMs: waitMs };
    const times = (before?.times ?? 0) + 1;
    const refused = await this.#ask(claim, lack.storage);
    const refusal = refused ?? (times > mostTimes ? loweredMessage(claim, lack) : undefined);
    this.#remember(vm, claim, lack, { times: refused === undefined ? times : 0, refusal });
    if (refusal === undefined) return underway;
    if (before?.refusal !== refusal)
      this.#parts.recorder.event(typed(vm), { type: 'Warning', reason: 'VolumeNotGrown', message: refusal });
    return { refusal, againMs: askAgainMs };
  }

  /** The kubelet ends a growth only while a pod has the volume, which a pod that runs does. */
  #wait(claim: PersistentVolumeClaim, { storage, at }: Asked): ClaimRoom {
    const fault = volumeFault(claim);
    if (fault === undefined && this.#parts.monotonic() - at < slowMs) return underway;
    const { name } = claim.metadata;
    const has = claim.status?.capacity?.['storage'];
    const why = fault ?? volumeProgress(claim) ?? 'nobody says why';
    const delay = `the volume of claim ${name} has ${has}, of ${storage} that are asked for: ${why}`;
    return { delay, againMs: askAgainMs };
  }

  #of(vm: Vm, claim: PersistentVolumeClaim, { storage, isAsked }: ClaimLack): Asked | undefined {
    const asked = this.#asked.get(vm.metadata.uid)?.get(claim.metadata.uid);
    // Somebody else may have asked for it after it was refused.
    const isStale = asked?.storage !== storage || (isAsked && asked.refusal !== undefined);
    return isStale ? undefined : asked;
  }

  #remember(
    vm: Vm,
    claim: PersistentVolumeClaim,
    { storage }: ClaimLack,
    { times = 0, refusal }: Partial<Pick<Asked, 'times' | 'refusal'>>,
  ): Asked {
    const asked = { storage, at: this.#parts.monotonic(), times, refusal };
    const { uid } = vm.metadata;
    const ofVm = this.#asked.get(uid) ?? new Map<string, Asked>();
    this.#asked.set(uid, ofVm.set(claim.metadata.uid, asked));
    return asked;
  }

  /** Returns why it is refused. */
  async #ask({ metadata }: PersistentVolumeClaim, storage: string): Promise<string | undefined> {
    const { name, namespace, uid } = metadata;
    const body = { metadata: { uid }, spec: { resources: { requests: { storage } } } };
    try {
      await this.#parts.client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
      return undefined;
    } catch (error) {
      // One that is gone is made anew.
      if (!isRefusal(error) || error.reason === 'NotFound') throw error;
      return messageOf(error);
    }
  }
}

function loweredMessage({ metadata, spec }: PersistentVolumeClaim, { storage }: ClaimLack): string {
  const asks = spec?.resources?.requests?.['storage'];
  return `claim ${metadata.name} was asked for ${storage} and asks for ${asks}: somebody has lowered it`;
}

/** Conditions and states of a claim whose volume has not grown when it was tried: it may need somebody to act. */
const faults: ReadonlySet<string> = new Set([
  'ControllerResizeError',
  'NodeResizeError',
  'ControllerResizeInfeasible',
  'NodeResizeInfeasible',
]);

function volumeFault(claim: PersistentVolumeClaim): string | undefined {
  const state = stateOf(claim);
  const isFault = state !== undefined && faults.has(state);
  return told(claim, ({ type }) => faults.has(type)) ?? (isFault ? state : undefined);
}

function volumeProgress(claim: PersistentVolumeClaim): string | undefined {
  return (
    told(claim, ({ type }) => type === 'FileSystemResizePending' || type === 'Resizing') ?? stateOf(claim)
  );
}

function stateOf({ status }: PersistentVolumeClaim): string | undefined {
  return status?.allocatedResourceStatuses?.['storage'];
}

function told(
  { status }: PersistentVolumeClaim,
  isMeant: (condition: { readonly type: string }) => boolean,
): string | undefined {
  const found = status?.conditions?.find((one) => one.status === 'True' && isMeant(one));
  if (found === undefined) return undefined;
  return found.message === undefined ? found.type : `${found.type}: ${found.message}`;
}
