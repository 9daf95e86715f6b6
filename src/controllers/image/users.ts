import { diskClaimSelector } from '../../api/diskimage.ts';
import { diskUsers, type PossibleUsers, usedDisk } from '../../api/diskusers.ts';
import type { KubeObject, Resource } from '../../api/object.ts';
import { persistentVolumeClaims, vmConfigs, vmPools, vms } from '../../api/resources.ts';
import { slimObject } from '../../api/slim.ts';
import { createLiveLists } from '../../controller/livelists.ts';
import type { KubeClient } from '../../kube/types.ts';
import { type Disk, type ImageCaches, resourceOf } from './caches.ts';
import { formerPlaceOf, type DiskKind, type RepositoryPath } from './repositorypath.ts';

/** What of a disk says who uses it. */
export interface NamedDisk {
  readonly disk: Disk;
  readonly kind: DiskKind;
  readonly path: RepositoryPath | undefined;
}

/** Who uses a disk as far as the caches know, as `diskUsers` says. */
export function cachedUsers(
  named: NamedDisk,
  caches: Pick<ImageCaches, 'vms' | 'vmConfigs' | 'vmPools' | 'disks' | 'claims'>,
): string | undefined {
  const { namespace } = named.disk.metadata;
  return usersAmong(named, {
    vms: [...caches.vms.list(namespace), ...caches.vms.byIndex('configNamespace', namespace)],
    pools: caches.vmPools.list(namespace),
    disks: caches.disks.list(namespace),
    claims: caches.claims.list(namespace),
    config: (name, of) => caches.vmConfigs.get(name, of),
  });
}

/** Who uses a disk as kube-apiserver has it now, as `diskUsers` says. */
export type LiveUsers = (named: NamedDisk) => Promise<string | undefined>;

/**
 * Whose cache is behind would take a disk away from a VM that was deployed from it a moment ago. VMs of other namespaces, which need a VMConfig
 * of this one, are as the cache has them: for them the VMs of the whole cluster would have to be listed.
 */
export function createLiveUsers(
  client: Pick<KubeClient, 'list'>,
  kind: DiskKind,
  { vms: cached }: Pick<ImageCaches, 'vms'>,
): LiveUsers {
  const listOf = <T extends KubeObject>(resource: Resource<T>, selector: { labelSelector?: string } = {}) =>
    createLiveLists(
      async (namespace) =>
        (await client.list(resource, { namespace, ...selector, transform: slimObject })).items,
    );
  const [listVms, listPools] = [listOf(vms), listOf(vmPools)];
  const [listConfigs, listDisks] = [listOf(vmConfigs), listOf(resourceOf(kind))];
  const listClaims = listOf(persistentVolumeClaims, { labelSelector: diskClaimSelector });
  return async (named) => {
    const { namespace } = named.disk.metadata;
    const [own, pools, configs, disks] = await Promise.all([
      listVms(namespace),
      listPools(namespace),
      listConfigs(namespace),
      listDisks(namespace),
    ]);
    // After the VMs: what was noted on a claim before its VM went is seen.
    const claims = kind === 'Image' ? await listClaims(namespace) : [];
    const byName = new Map(configs.map((config) => [config.metadata.name, config]));
    return usersAmong(named, {
      vms: [...own, ...cached.byIndex('configNamespace', namespace)],
      pools,
      disks,
      claims,
      config: (name, of) => (of === namespace ? byName.get(name) : undefined),
    });
  };
}

function usersAmong({ disk, kind, path }: NamedDisk, users: PossibleUsers): string | undefined {
  const places = [path, formerPlaceOf(disk, path)].filter((place) => place !== undefined);
  const repositories = places.map(({ registry, repository }) => `${registry}/${repository}`);
  const used = { ...usedDisk(disk, kind === 'ISO' ? 'iso' : 'image'), repositories };
  // Of a disk whose object is gone nobody can make a copy any more: those of its name wait for another one.
  const isThere = users.disks.some(({ metadata }) => metadata.uid === disk.metadata.uid);
  return diskUsers(used, isThere ? users : { ...users, disks: [] });
}
