import { configKeyOf } from '../api/configkey.ts';
import {
  diskUsers,
  type PossibleUsers,
  refuseWhileUsed,
  type UsedDisk,
  usedDisk,
  usersAmong,
} from '../api/diskusers.ts';
import type { Image, Iso } from '../api/image.ts';
import type { KubeObject, NamespacedMeta, Resource } from '../api/object.ts';
import { vmConfigs, vmPools, vms } from '../api/resources.ts';
import type { VmConfig } from '../api/vmconfig.ts';
import { ifFound, isSvc3Error } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';
import { diskDeletionMessage, isHeldForUsers } from '../wire/image.ts';
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
 * @returns how its deletion goes on; undefined: it is gone.
 * @throws Svc3Error Conflict that names who uses it
 */
export async function deleteDisk(
  environment: DiskDeletionEnvironment,
  seen: Disk,
): Promise<string | undefined> {
  const { resource, field, wait } = environment;
  const disk = await deleteUnused(environment, seen);
  const waited = await wait(resource, disk, { timeoutMs, done: isHeldForUsers });
  return waited.kind === 'gone' ? undefined : diskDeletionMessage(field, waited.object);
}

/** @returns the one whose deletion was asked for. */
async function deleteUnused(environment: DiskDeletionEnvironment, seen: Disk): Promise<Disk> {
  const { resource, field, live } = environment;
  const known = await environment.users();
  try {
    return await deleteOf(environment, seen, known);
  } catch (error) {
    if (live === undefined || !isSvc3Error(error, 'Conflict')) throw error;
    const disk = await live.get(resource, seen.metadata.name, seen.metadata.namespace);
    return deleteOf(
      environment,
      disk,
      await stillUsing(live, { disk: usedDisk(disk, field), resource }, known),
    );
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

/** Of those who use the disk as far as is known those who may still: they are looked at one by one, until one does. */
async function stillUsing(
  live: Pick<KubeClient, 'get'>,
  { disk, resource }: { readonly disk: UsedDisk; readonly resource: Resource<Disk> },
  known: PossibleUsers,
): Promise<PossibleUsers> {
  const users = usersAmong(disk, known);
  const vmsLeft = await fromFirst(users.vms, async (seen) => {
    const vm = await now(live, vms, seen);
    if (vm === undefined) return false;
    const config = await configAt(live, configKeyOf(vm));
    return isUsedBy(disk, { vms: [vm], config: () => config });
  });
  if (vmsLeft.length > 0) return { ...users, vms: vmsLeft };
  const pools = await fromFirst(users.pools, async (seen) => {
    const pool = await now(live, vmPools, seen);
    if (pool === undefined) return false;
    const { config: name } = pool.spec.template;
    const { namespace } = pool.metadata;
    const config = await configAt(live, name === undefined ? undefined : { name, namespace });
    return isUsedBy(disk, { pools: [pool], config: () => config });
  });
  if (pools.length > 0) return { ...users, vms: [], pools };
  const disks = await fromFirst(users.disks, async (seen) => {
    const copy = await now(live, resource, seen);
    return copy !== undefined && isUsedBy(disk, { disks: [copy] });
  });
  return { ...users, vms: [], pools: [], disks };
}

function isUsedBy(disk: UsedDisk, users: Partial<PossibleUsers>): boolean {
  return diskUsers(disk, { vms: [], pools: [], disks: [], config: () => undefined, ...users }) !== undefined;
}

function now<T extends KubeObject & { metadata: NamespacedMeta }>(
  live: Pick<KubeClient, 'get'>,
  resource: Resource<T>,
  { metadata: { name, namespace } }: T,
): Promise<T | undefined> {
  return ifFound(live.get(resource, name, namespace));
}

async function configAt(
  live: Pick<KubeClient, 'get'>,
  key: { readonly name: string; readonly namespace: string } | undefined,
): Promise<VmConfig | undefined> {
  return key === undefined ? undefined : ifFound(live.get(vmConfigs, key.name, key.namespace));
}

/** What is left from the first on that is one. */
async function fromFirst<T>(
  objects: readonly T[],
  isOne: (object: T) => Promise<boolean>,
): Promise<readonly T[]> {
  for (const [at, object] of objects.entries()) if (await isOne(object)) return objects.slice(at);
  return [];
}
