import { type PossibleUsers, refuseWhileUsed, usedDisk } from '../api/diskusers.ts';
import type { Image, Iso } from '../api/image.ts';
import type { Resource } from '../api/object.ts';
import type { KubeClient } from '../kube/types.ts';
import { diskDeletionMessage, isHeldForUsers } from '../wire/image.ts';
import type { Waiter } from './waiter.ts';

export interface DiskDeletionEnvironment {
  /** Whose right it is to delete it. */
  readonly caller: KubeClient;
  readonly resource: Resource<Image | Iso>;
  readonly field: 'image' | 'iso';
  /** Who may use it, as far as is known here: the operator looks again, at everything. */
  users(): Promise<PossibleUsers>;
  readonly wait: Waiter;
}

/** A worker has ten seconds to end, and a store may have many versions to delete. */
const timeoutMs = 20_000;

/**
 * Deletes an Image or ISO that nobody uses, and waits until it is gone, so that its name is free again; not where it waits for its users.
 *
 * @returns how its deletion goes on; undefined: it is gone.
 * @throws Svc3Error Conflict that names who uses it
 */
export async function deleteDisk(
  { caller, resource, field, users, wait }: DiskDeletionEnvironment,
  disk: Image | Iso,
): Promise<string | undefined> {
  refuseWhileUsed(usedDisk(disk, field), await users());
  const { name, namespace, uid } = disk.metadata;
  await caller.delete(resource, { name, namespace }, { uid });
  const waited = await wait(resource, disk, { timeoutMs, done: isHeldForUsers });
  return waited.kind === 'gone' ? undefined : diskDeletionMessage(field, waited.object);
}
