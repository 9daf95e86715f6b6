import { type PossibleUsers, refuseWhileUsed, usedDisk } from '../api/diskusers.ts';
import type { Image, Iso } from '../api/image.ts';
import type { Resource } from '../api/object.ts';
import { isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { requireMeant } from '../wire/meant.ts';
import { diskDeletionMessage, isHeldForUsers } from '../wire/image.ts';
import { stillUsing } from './stillusing.ts';
import type { Waiter } from './waiter.ts';

type Disk = Image | Iso;

export interface DiskDeletionEnvironment {
  /** Whose right it is to delete it. */
  readonly caller: KubeClient;
  readonly resource: Resource<Disk>;
  readonly field: 'image' | 'iso';
  /** Who may use it, as far as is known here: the operator looks again, at everything. */
  users(): Promise<PossibleUsers>;
  /** Where disk and users are from caches, which may be behind: reads them once more before a deletion is refused. */
  readonly live?: Pick<KubeClient, 'get'>;
  readonly wait: Waiter;
}

/** A worker has ten seconds to end, and a store may have many versions to delete. */
const timeoutMs = 20_000;

/**
 * Deletes an Image or ISO that nobody uses, and waits until it is gone, so that its name is free again; not where it waits for its users.
 *
 * @param seen - where it is from a cache, and another one has its name by now, that one is deleted
 * @param meant - UID of the one that is meant: another one of its name is left alone
 * @returns how its deletion goes on; undefined: it is gone.
 * @throws Svc3Error Conflict that names who uses it, or where it is another than `meant`
 */
export async function deleteDisk(
  environment: DiskDeletionEnvironment,
  seen: Disk,
  meant?: string,
): Promise<string | undefined> {
  const { resource, field, wait } = environment;
  const disk = await deleteUnused(environment, seen, meant);
  const waited = await wait(resource, disk, { timeoutMs, done: isHeldForUsers });
  return waited.kind === 'gone' ? undefined : diskDeletionMessage(field, waited.object);
}

/** @returns the one whose deletion was asked for. */
async function deleteUnused(
  environment: DiskDeletionEnvironment,
  seen: Disk,
  meant: string | undefined,
): Promise<Disk> {
  const { resource, field, live } = environment;
  const known = await environment.users();
  try {
    requireMeant(resource, seen, meant);
    return await deleteOf(environment, seen, known);
  } catch (error) {
    if (live === undefined || !isSvc3Error(error, 'Conflict')) throw error;
    const disk = await live.get(resource, seen.metadata.name, seen.metadata.namespace);
    requireMeant(resource, disk, meant);
    const users = await stillUsing(live, { disk: usedDisk(disk, field), resource }, known);
    return deleteOf(environment, disk, users);
  }
}

async function deleteOf(
  { caller, resource, field }: DiskDeletionEnvironment,
  disk: Disk,
  users: PossibleUsers,
): Promise<Disk> {
  refuseWhileUsed(usedDisk(disk, field), users);
  const { name, namespace, uid } = disk.metadata;
  await caller.delete(resource, { name, namespace }, { uid });
  return disk;
}
