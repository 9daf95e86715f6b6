import { configNamespaceIndex } from '../../api/configkey.ts';
import type { Node, PersistentVolumeClaim, Pod } from '../../api/core.ts';
import { diskClaimSelector } from '../../api/diskimage.ts';
import type { Image, Iso } from '../../api/image.ts';
import { labels } from '../../api/meta.ts';
import { controllerOf } from '../../api/owner.ts';
import {
  images,
  isos,
  nodes,
  persistentVolumeClaims,
  pods,
  vmConfigs,
  vmPools,
  vms,
} from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import type { VmPool } from '../../api/vmpool.ts';
import type { Informers } from '../../controller/informers.ts';
import type { Resource } from '../../api/object.ts';
import type { Informer } from '../../kube/types.ts';
import type { DiskKind } from './repositorypath.ts';

export type Disk = Image | Iso;

/** What the controllers of Images and ISOs read, from memory. */
export interface ImageCaches {
  readonly disks: Informer<Disk>;
  /** With `configNamespaceIndex`. */
  readonly vms: Informer<Vm>;
  readonly vmConfigs: Informer<VmConfig>;
  readonly vmPools: Informer<VmPool>;
  /** Of disks of VMs, those that are gone too. */
  readonly claims: Informer<PersistentVolumeClaim>;
  readonly nodes: Pick<Informer<Node>, 'get'>;
  /** Worker pods only. */
  readonly pods: Informer<Pod>;
  podsOf(disk: Disk): readonly Pod[];
}

/** Both kinds have the same shape, an ISO's sources being some of an Image's. */
export function resourceOf(kind: DiskKind): Resource<Disk> {
  return kind === 'Image' ? images : isos;
}

const byOwner = 'owner';

export function createImageCaches(informers: Informers, kind: DiskKind): ImageCaches {
  const workers = informers.get(pods, {
    labelSelector: `${labels.component}=worker,${labels.partOf}=svc3`,
    indexes: { [byOwner]: (pod) => [controllerOf(pod)?.uid ?? ''] },
  });
  return {
    disks: informers.get(resourceOf(kind)),
    vms: informers.get(vms, { indexes: configNamespaceIndex }),
    vmConfigs: informers.get(vmConfigs),
    vmPools: informers.get(vmPools),
    claims: informers.get(persistentVolumeClaims, { labelSelector: diskClaimSelector }),
    nodes: informers.get(nodes),
    pods: workers,
    podsOf: ({ metadata }) => workers.byIndex(byOwner, metadata.uid),
  };
}
