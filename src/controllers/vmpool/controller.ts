import { isDeepStrictEqual } from 'node:util';
import type { Image, Iso } from '../../api/image.ts';
import { labels, objectNames } from '../../api/meta.ts';
import type { Node, Pod } from '../../api/core.ts';
import { images, isos, nodes, pods, secrets, vmConfigs, vmPools, vms } from '../../api/resources.ts';
import { leaves, leavesSpec } from '../../controller/change.ts';
import { type Controller, createController, isCached, keyOf } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Change } from '../../kube/types.ts';
import { reservedFor } from '../../placement/nodefacts.ts';
import { lastingTaints } from '../../placement/taints.ts';
import { readByUsers } from '../image/nameddisk.ts';
import type { Shared } from '../vm/controller.ts';
import { debounced } from '../vm/pacing.ts';
import { isLeftOfPool, isStandby, poolIndex } from '../vm/facts/standby.ts';
import { slimPod } from '../vm/pod/slimpod.ts';
import { ImageResolutions } from '../vm/resolve/imageresolutions.ts';
import type { ResolveSources } from '../vm/resolve/resolve.ts';
import type { VmSettings } from '../vm/settings.ts';
import { PoolReconciler, type PoolReconcilerParts } from './reconciler.ts';

/** Claims come in bursts: the pool is looked at once for several, in milliseconds. */
const gatherMs = 50;

export interface PoolControllerParts {
  /** Of the controller of VMs in this process. */
  readonly shared: Shared;
  /** What is counted for metrics; not said: nothing is. */
  readonly metrics?: Pick<PoolReconcilerParts, 'counted' | 'made'>;
}

/** Keeps as many guests waiting as every VMPool says. To be made after the controller of VMs, before the informers run. */
export function createVmPoolController(
  { client, recorder, informers, settings, log, gate, metrics }: Runtime<VmSettings>,
  { shared, metrics: counters = {} }: PoolControllerParts,
): Controller {
  const monotonic = () => performance.now();
  const caches = {
    pools: informers.get(vmPools),
    pods: informers.get(pods, { transform: slimPod }),
    vms: informers.get(vms),
    nodes: informers.get(nodes),
    configs: informers.get(vmConfigs),
    images: informers.get(images),
    isos: informers.get(isos),
  };
  caches.pods.addIndexes(poolIndex);
  const resolutions =
    shared.resolver === undefined
      ? undefined
      : new ImageResolutions(shared.resolver, (key) => controller.enqueue(key), monotonic);
  const sources: ResolveSources = {
    vmConfig: (name, namespace) => caches.configs.get(name, namespace),
    image: (name, namespace) => caches.images.get(name, namespace),
    iso: (name, namespace) => caches.isos.get(name, namespace),
    answer: (key, namespace, reference, sought) => resolutions?.resolve(key, namespace, reference, sought),
    settings,
  };
  const reconciler = new PoolReconciler(
    {
      client,
      recorder,
      caches,
      sources,
      settings,
      shared,
      ...counters,
      now: () => new Date(),
    },
    monotonic,
  );
  const controller: Controller = createController({
    name: 'vmpool',
    // Also where a pool went while nobody led.
    isThere: (key) => isCached(caches.pools, key) || caches.pods.byIndex('pool', key).some(isLeftOfPool),
    workers: 2,
    priorityOf: () => 'low',
    log,
    gate,
    metrics: metrics.controllers,
    reconcile: (key) => reconciler.reconcile(key),
  });
  const wakeSoon = waker((key) => controller.enqueue(key));
  caches.pools.onChange(({ object }) => controller.enqueue(keyOf(object)));
  caches.pods.onChange(({ kind, object }) => {
    if (!isStandby(object)) return;
    reconciler.sawPod(object, kind === 'deleted');
    wakeSoon(poolKeyOf(object));
  });
  caches.vms.onChange(({ object: { metadata, spec } }) => {
    if (spec.pool !== undefined) wakeSoon(`${metadata.namespace}/${spec.pool}`);
  });
  const wakeNamespace = (namespace: string) => {
    for (const pool of caches.pools.list(namespace)) controller.enqueue(keyOf(pool));
  };
  caches.configs.onChange((change) => {
    if (!leavesSpec(change)) wakeNamespace(change.object.metadata.namespace);
  });
  const followDisk = (change: Change<Image | Iso>) => {
    if (!leaves(change, readByUsers)) wakeNamespace(change.object.metadata.namespace);
  };
  caches.images.onChange(followDisk);
  caches.isos.onChange(followDisk);
  // A guest is pulled with the Secret that there was when its pod was made.
  informers
    .get(secrets, { fieldSelector: `metadata.name=${objectNames.pullSecret}` })
    .onChange(({ object }) => wakeNamespace(object.metadata.namespace));
  shared.resolver?.onCredential(wakeNamespace);
  const wakeAll = debounced(() => {
    for (const pool of caches.pools.list()) controller.enqueue(keyOf(pool));
  }, 1_000);
  // Nodes come and go, are cordoned, tainted and reserved; their heartbeats are no news.
  caches.nodes.onChange((change) => {
    const isNews =
      change.kind !== 'updated' ||
      change.old.spec?.unschedulable !== change.object.spec?.unschedulable ||
      reservedFor(change.old) !== reservedFor(change.object) ||
      !isDeepStrictEqual(taintsOf(change.old), taintsOf(change.object)) ||
      readyOf(change.old) !== readyOf(change.object);
    if (isNews) wakeAll();
  });
  return controller;
}

const taintsOf = ({ spec }: Node) => lastingTaints(spec?.taints ?? []);

function readyOf({
  status,
}: {
  status?: { conditions?: { type: string; status: string }[] };
}): string | undefined {
  return status?.conditions?.find(({ type }) => type === 'Ready')?.status;
}

function poolKeyOf({ metadata }: Pod): string {
  return `${metadata.namespace}/${metadata.labels?.[labels.pool]}`;
}

/** Wakes a pool once for all that happens in a short time. */
function waker(enqueue: (key: string) => void): (key: string) => void {
  const due = new Set<string>();
  const flush = debounced(() => {
    const keys = [...due];
    due.clear();
    for (const key of keys) enqueue(key);
  }, gatherMs);
  return (key) => {
    due.add(key);
    flush();
  };
}
