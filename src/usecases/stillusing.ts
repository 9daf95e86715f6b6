import { configKeyOf } from '../api/configkey.ts';
import { diskUsers, type PossibleUsers, type UsedDisk, usersAmong } from '../api/diskusers.ts';
import type { Image, Iso } from '../api/image.ts';
import type { KubeObject, NamespacedMeta, Resource } from '../api/object.ts';
import { persistentVolumeClaims, vmConfigs, vmPools, vms } from '../api/resources.ts';
import type { VmConfig } from '../api/vmconfig.ts';
import { ifFound } from '../errors.ts';
import type { KubeClient } from '../kube/types.ts';

/** So many of a kind that use a disk no more are looked at; of those beyond it is believed that they do, until the next request. */
const mostLooks = 50;

/**
 * Of those who use a disk as far as is known those who may still: kube-apiserver is asked for one after the other, until one does. The first of those who
 * are left does use it, or is one too many to be asked for.
 */
export async function stillUsing(
  live: Pick<KubeClient, 'get'>,
  { disk, resource }: { readonly disk: UsedDisk; readonly resource: Resource<Image | Iso> },
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
  if (disks.length > 0) return { ...users, vms: [], pools: [], disks };
  // Those of VMs that were there a moment ago count by themselves now.
  const ofNobody = usersAmong(disk, { ...nobody, claims: known.claims });
  const claims = await fromFirst(ofNobody.claims, async ({ metadata: { name, namespace } }) => {
    const claim = await ifFound(live.get(persistentVolumeClaims, name, namespace));
    return claim !== undefined && isUsedBy(disk, { claims: [claim] });
  });
  return { ...nobody, claims };
}

const nobody: PossibleUsers = { vms: [], pools: [], disks: [], claims: [], config: () => undefined };

function isUsedBy(disk: UsedDisk, users: Partial<PossibleUsers>): boolean {
  return diskUsers(disk, { ...nobody, ...users }) !== undefined;
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
  for (const [at, object] of objects.entries())
    if (at === mostLooks || (await isOne(object))) return objects.slice(at);
  return [];
}
