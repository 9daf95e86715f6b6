import { findCondition } from '../../controller/conditions.ts';
import type { ReconcileResult } from '../../kube/types.ts';
import { deletesNothing } from '../../registry/deletion.ts';
import { looks, uploadsOf, type LookedAt } from './awaitedupload.ts';
import type { Disk } from './caches.ts';
import type { NamespaceRegistries } from './registries.ts';

interface Look {
  /** The upload that had been taken or refused then. */
  readonly request: string | undefined;
  /** When the next is due, in milliseconds since 1970; undefined where nothing is left that can go. */
  readonly at: number | undefined;
}

/**
 * Gives up what was begun to be uploaded to a disk beside the upload that was taken or refused, and that nobody went on with. The store is asked once
 * the time for an upload is over since then, and again while something is left that may go later. After that it is not asked any more for a
 * disk that is stored, which takes no other upload; for one that was refused, which does, once in that time. What was looked at is in memory alone: another process looks again.
 */
export class LeftUploads {
  readonly #registries: NamespaceRegistries;
  readonly #expiryMs: number;
  readonly #random: () => number;
  /** The last of each disk, by its UID. */
  readonly #looks = new Map<string, Look>();

  constructor(registries: NamespaceRegistries, expiryMs: number, random: () => number = Math.random) {
    this.#registries = registries;
    this.#expiryMs = expiryMs;
    this.#random = random;
  }

  /** @returns when to look again at a disk that is stored or was refused; a store that fails is asked again later. */
  async look(at: LookedAt): Promise<ReconcileResult | undefined> {
    const { disk, path, now } = at;
    if (disk.spec.source.upload === undefined || path === undefined) return undefined;
    let next = this.#nextAt(disk, now);
    if (next !== undefined && next <= now) next = await this.#giveUp(at);
    this.#looks.set(disk.metadata.uid, { request: disk.status?.request, at: next });
    return next === undefined ? undefined : { requeueAfterMs: next - now };
  }

  forget(uid: string): void {
    this.#looks.delete(uid);
  }

  #nextAt(disk: Disk, now: number): number | undefined {
    const last = this.#looks.get(disk.metadata.uid);
    if (last !== undefined && last.request === disk.status?.request) return last.at;
    const due = (answeredAt(disk) ?? now) + this.#expiryMs;
    // A process that has just begun to lead finds all that there are at once.
    return due < now ? now + (this.#random() * this.#expiryMs) / looks : due;
  }

  /** Returns when the next look is due. */
  async #giveUp(at: LookedAt): Promise<number | undefined> {
    const { now } = at;
    const later = now + this.#expiryMs;
    const mayComeAnew = at.disk.status?.digest === undefined;
    try {
      const { going } = await uploadsOf(this.#registries, at, this.#expiryMs);
      // Of a list of an earlier version nobody knows when it was written.
      const times = going.flatMap(({ writtenAt }) => (writtenAt === undefined ? [] : [writtenAt]));
      const over = times.map((writtenAt) => writtenAt + this.#expiryMs + 1);
      if (mayComeAnew) over.push(later);
      return over.length === 0 ? undefined : Math.min(...over);
    } catch (error) {
      return deletesNothing(error) && !mayComeAnew ? undefined : later;
    }
  }
}

/** Since when it is stored, or refused. */
function answeredAt({ status }: Disk): number | undefined {
  const { conditions } = status ?? {};
  const told = findCondition(conditions, 'Stalled') ?? findCondition(conditions, 'Ready');
  const at = Date.parse(told?.lastTransitionTime ?? '');
  return Number.isNaN(at) ? undefined : at;
}
