import type { Image, Iso } from '../../api/image.ts';
import { images, isos, vmConfigs } from '../../api/resources.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import { leaves, leavesSpec } from '../../controller/change.ts';
import { createController, isCached, keyOf, type Controller } from '../../controller/controller.ts';
import { createExpectations } from '../../controller/expectations.ts';
import type { Informers } from '../../controller/informers.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Change } from '../../kube/types.ts';
import type { DiskKind } from '../image/repositorypath.ts';
import { createVmConfigReconciler, type VmConfigCaches } from './reconciler.ts';
import { diskNamed, problemOf, usableArchitecture } from './verdict.ts';

/** Few, since nobody waits for this status; more than one, so that a slow write does not delay all others. */
const workers = 4;

/** Names of the indexes of VMConfigs by the `namespace/name` of what they name. */
const byDisk = { Image: 'image', ISO: 'iso' } as const satisfies Record<DiskKind, string>;

function createCaches(informers: Informers): VmConfigCaches {
  const naming = (kind: DiskKind) => (config: VmConfig) => {
    const name = diskNamed(config, kind);
    return name === undefined ? [] : [`${config.metadata.namespace}/${name}`];
  };
  return {
    vmConfigs: informers.get(vmConfigs, {
      indexes: { [byDisk.Image]: naming('Image'), [byDisk.ISO]: naming('ISO') },
    }),
    images: informers.get(images),
    isos: informers.get(isos),
  };
}

/** Keeps the status of every VMConfig: whether the Image and ISO that it names can be used. To be created before the informers run. */
export function createVmConfigController(runtime: Omit<Runtime, 'settings'>): Controller {
  const { client, informers, recorder, log, gate, metrics } = runtime;
  const caches = createCaches(informers);
  const expected = createExpectations<VmConfig>((key) => controller.enqueue(key));
  const controller: Controller = createController({
    name: 'vmconfig',
    isThere: (key) => isCached(caches.vmConfigs, key),
    workers,
    log,
    gate,
    metrics: metrics.controllers,
    reconcile: createVmConfigReconciler({ client, recorder, caches, expected, now: () => new Date() }),
  });
  caches.vmConfigs.onChange((change) => {
    const isOurs = expected.observe(keyOf(change.object), change.object);
    // After a relist the first object that is seen may be the one with our status, and yet have a new spec: then its generation differs.
    if (!(isOurs && leavesSpec(change))) controller.enqueue(keyOf(change.object));
  });
  const wakeNaming = (kind: DiskKind) => (change: Change<Image | Iso>) => {
    if (leaves(change, readByConfigs(kind))) return;
    for (const config of caches.vmConfigs.byIndex(byDisk[kind], keyOf(change.object)))
      controller.enqueue(keyOf(config));
  };
  caches.images.onChange(wakeNaming('Image'));
  caches.isos.onChange(wakeNaming('ISO'));
  return controller;
}

/** All that the status of those who name an Image or ISO is made from: steps of the work on its disk are nothing to them. */
function readByConfigs(kind: DiskKind): (disk: Image | Iso) => unknown {
  return (disk) => {
    const { name, namespace } = disk.metadata;
    return [problemOf(kind, { name, namespace }, disk), usableArchitecture(disk)];
  };
}
