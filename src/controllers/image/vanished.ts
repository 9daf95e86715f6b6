import { hasFinalizer } from '../../api/finalizer.ts';
import type { Change } from '../../kube/types.ts';
import type { Disk } from './caches.ts';

/**
 * Disks that went although our finalizer held them. kube-apiserver decides on a DELETE by what it has read before: a finalizer that is
 * written meanwhile does not count, and with its Image goes all knowledge of what lies in the store. A standby operator
 * sees the same, so one that is killed right now takes nothing with it. Only the DELETED of a watch says it: a list that is without a disk may
 * be of an etcd that was restored from a backup of the time before.
 */
export class VanishedDisks {
  readonly #disks = new Map<string, Disk>();

  /** A disk that ends as it should is marked as being deleted before it goes. */
  observe(key: string, change: Change<Disk>): void {
    const { object } = change;
    if (change.kind !== 'deleted' || change.isFromList === true) this.#disks.delete(key);
    else if (hasFinalizer(object) && object.metadata.deletionTimestamp === undefined)
      this.#disks.set(key, object);
  }

  has(key: string): boolean {
    return this.#disks.has(key);
  }

  /** As it would be if somebody had deleted it `now`. */
  deleted(key: string, now: Date): Disk | undefined {
    const disk = this.#disks.get(key);
    if (disk === undefined) return undefined;
    const metadata = { ...disk.metadata, deletionTimestamp: now.toISOString() };
    return { ...disk, metadata };
  }

  forget(key: string): void {
    this.#disks.delete(key);
  }
}
