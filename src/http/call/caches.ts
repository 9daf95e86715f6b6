import { configKeyOf, configNamespaceIndex } from '../../api/configkey.ts';
import type { Node, ServiceAccount } from '../../api/core.ts';
import type { Image, Iso } from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import type { VmPool } from '../../api/vmpool.ts';
import { imageItem, type ImageItem } from '../../wire/image.ts';
import { type Inherited, inheritedFromPool, vmItem, type VmItem } from '../../wire/vm.ts';
import { vmConfigItem, type VmConfigItem } from '../../wire/vmconfig.ts';
import { vmPoolItem, type VmPoolItem } from '../../wire/vmpool.ts';
import type { KubeObject } from '../../api/object.ts';
import type { Informer, KubeClient } from '../../kube/types.ts';
import { createAccounts, type Accounts } from './accounts.ts';
import { createItemLists, type ItemLists } from './itemlists.ts';
import { createNodeUsages, type NodeUsages, type PodRequests } from '../../wire/nodeusage.ts';
import { createWatchers, type Watchers } from './watchers.ts';

export interface Informers {
  readonly vms: Informer<Vm>;
  readonly vmConfigs: Informer<VmConfig>;
  readonly vmPools: Informer<VmPool>;
  readonly images: Informer<Image>;
  readonly isos: Informer<Iso>;
  readonly nodes: Informer<Node>;
  /** With `keepRequests` as their transform. */
  readonly pods: Informer<PodRequests>;
  /** With `keepIdentity` as their transform. */
  readonly accounts: Informer<ServiceAccount>;
}

interface Cache<T extends KubeObject, I> {
  readonly objects: Informer<T>;
  readonly items: ItemLists<I>;
  readonly changes: Watchers<T>;
}

/** The api's watch caches, with each object's JSON made once per change and not per request. */
export interface Caches {
  readonly vms: Cache<Vm, VmItem>;
  readonly vmConfigs: Cache<VmConfig, VmConfigItem>;
  readonly vmPools: Cache<VmPool, VmPoolItem>;
  readonly images: Cache<Image, ImageItem>;
  readonly isos: Cache<Iso, ImageItem>;
  readonly nodes: Informer<Node>;
  readonly usages: NodeUsages;
  readonly accounts: Accounts;
  hasSynced(): boolean;
}

/** Indexes of `Informers.vms` that the routes use. */
export const vmIndexes = {
  uid: (vm: Vm): readonly string[] => [vm.metadata.uid],
  ...configNamespaceIndex,
  image: (vm: Vm): readonly string[] => imagesOf(vm).map((image) => `${vm.metadata.namespace}/${image}`),
};

function imagesOf(vm: Vm): string[] {
  return [vm.spec.image, vm.spec.iso].filter((name) => name !== undefined);
}

function cacheOf<T extends KubeObject, I>(informer: Informer<T>, toItem: (object: T) => I): Cache<T, I> {
  return { objects: informer, items: createItemLists(informer, toItem), changes: createWatchers(informer) };
}

/** Call before the informers run. */
export function createCaches(client: KubeClient, informers: Informers): Caches {
  const { vms, vmConfigs, vmPools, images, isos, nodes, pods, accounts } = informers;
  const inheritedOf = (vm: Vm): Inherited | undefined => {
    const { namespace } = vm.metadata;
    const key = configKeyOf(vm);
    if (vm.spec.pool === undefined)
      return key === undefined ? undefined : vmConfigs.get(key.name, key.namespace);
    const pool = vmPools.get(vm.spec.pool, namespace);
    const name = pool?.spec.template.config;
    const config = name === undefined ? undefined : vmConfigs.get(name, namespace);
    return pool === undefined ? undefined : inheritedFromPool(pool, config);
  };
  return {
    vms: cacheOf(vms, (vm) => vmItem(vm, inheritedOf(vm))),
    vmConfigs: cacheOf(vmConfigs, vmConfigItem),
    vmPools: cacheOf(vmPools, vmPoolItem),
    images: cacheOf(images, imageItem),
    isos: cacheOf(isos, imageItem),
    nodes,
    usages: createNodeUsages(pods),
    accounts: createAccounts(client, accounts),
    hasSynced: () => Object.values(informers).every((informer: Informer<KubeObject>) => informer.hasSynced()),
  };
}
