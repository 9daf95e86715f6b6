import type { PersistentVolumeClaim } from '../../../api/core.ts';
import { persistentVolumeClaims } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { isSvc3Error, messageOf } from '../../../errors.ts';
import type { EventRecorder, KubeClient } from '../../../kube/types.ts';
import type { VmMemory } from '../parts.ts';
import { typed } from '../status/statuswriter.ts';
import { bootNeeds, grownStorage } from './claim.ts';

/** Grows the claims of Persistent disks: the volume first, then its runner grows the disk on it. */
export class ClaimGrowth implements VmMemory {
  readonly #client: KubeClient;
  readonly #recorder: EventRecorder;
  /** Sizes that were asked for: until the cache shows them, and once where they are refused. */
  readonly #asked = new Map<string, string>();

  constructor(client: KubeClient, recorder: EventRecorder) {
    this.#client = client;
    this.#recorder = recorder;
  }

  /** A StorageClass that cannot expand is told of in an event, once per size. */
  async grow(vm: Vm, claim: PersistentVolumeClaim | undefined): Promise<void> {
    const { uid: vmUid } = vm.metadata;
    const storage = grownStorage(vm, claim, bootNeeds(vm));
    if (claim === undefined || storage === undefined || this.#asked.get(vmUid) === storage) return;
    this.#asked.set(vmUid, storage);
    const { name, namespace, uid } = claim.metadata;
    const body = { metadata: { uid }, spec: { resources: { requests: { storage } } } };
    try {
      await this.#client.patch(persistentVolumeClaims, { name, namespace }, { type: 'merge', body });
    } catch (error) {
      if (!isSvc3Error(error, 'Forbidden', 'Invalid')) {
        this.#asked.delete(vmUid);
        throw error;
      }
      const message = messageOf(error);
      this.#recorder.event(typed(vm), { type: 'Warning', reason: 'VolumeNotGrown', message });
    }
  }

  forget(vmUid: string): void {
    this.#asked.delete(vmUid);
  }
}
