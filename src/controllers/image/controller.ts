import { configNamespaceIndex } from '../../api/configkey.ts';
import { diskImagesOf } from '../../api/diskimage.ts';
import { usesSameDisks } from '../../api/diskusers.ts';
import { isTerminating } from '../../api/owner.ts';
import { objectNames } from '../../api/meta.ts';
import { secrets } from '../../api/resources.ts';
import type { PersistentVolumeClaim } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import { leaves, leavesSpec } from '../../controller/change.ts';
import { createController, isCached, keyOf, type Controller } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Change } from '../../kube/types.ts';
import { createExpectations } from '../../controller/expectations.ts';
import type { RegistryFailed } from '../../registry/transport.ts';
import { createImageCaches, type Disk, type ImageCaches } from './caches.ts';
import { vmNameOf, requestOf, workId } from './names.ts';
import type { DiskKind } from './repositorypath.ts';
import { ImageReconciler } from './reconciler.ts';
import { createNamespaceRegistries } from './registries.ts';
import { WorkBackoff } from './workbackoff.ts';
import { hasMoved, type OpenRunnerExports } from './runner.ts';
import type { ImageSettings } from './settings.ts';
import { StartWaits } from '../startwaits.ts';
import { createLiveUsers } from './users.ts';
import { VanishedDisks } from './vanished.ts';

export interface ImageControllerParts {
  readonly openRunner?: OpenRunnerExports | undefined;
  readonly registryFailed?: RegistryFailed | undefined;
}

/** A pass may wait for the store or for a VM's runner: enough that the half which one namespace may hold leaves others some. */
const workers = 16;

/** Keeps Images and ISOs as their specs say, one controller for each. To be made before the informers run. */
export function createImageControllers(
  runtime: Omit<Runtime<ImageSettings>, 'log'> & Pick<Runtime, 'log'>,
  parts: ImageControllerParts = {},
): Controller[] {
  return [createDiskController(runtime, parts, 'Image'), createDiskController(runtime, parts, 'ISO')];
}

function createDiskController(
  runtime: Runtime<ImageSettings>,
  { openRunner, registryFailed }: ImageControllerParts,
  kind: DiskKind,
): Controller {
  const { client, informers, recorder, log, gate, settings } = runtime;
  const caches = createImageCaches(informers, kind);
  const expected = createExpectations<Disk>();
  const backoff = new WorkBackoff();
  const monotonic = () => performance.now();
  const startWaits = new StartWaits(monotonic);
  const vanished = new VanishedDisks();
  const reconciler = new ImageReconciler({
    kind,
    client,
    recorder,
    log,
    caches,
    expected,
    backoff,
    startWaits,
    vanished,
    liveUsers: createLiveUsers(client, kind, caches),
    settings,
    openRunner,
    registries: createNamespaceRegistries(client, settings.store, registryFailed),
    registryFailed,
    monotonic,
    now: () => new Date(),
  });
  const controller = createController({
    name: kind.toLowerCase(),
    isThere: (key) => isCached(caches.disks, key) || vanished.has(key),
    workers,
    log,
    gate,
    metrics: runtime.metrics.controllers,
    reconcile: (key, { signal }) => reconciler.reconcile(key, signal),
  });

  const enqueueWhere: EnqueueWhere = (namespace, isMeant) => {
    for (const disk of caches.disks.list(namespace)) if (isMeant(disk)) controller.enqueue(keyOf(disk));
  };
  const tryAtOnce = (disk: Disk): void => {
    const request = requestOf(disk);
    if (request !== undefined) backoff.hurry(workId(disk, request));
  };
  caches.disks.onChange((change) => {
    const { object } = change;
    expected.observe(keyOf(object), object);
    vanished.observe(keyOf(object), change);
    controller.enqueue(keyOf(object));
    enqueueCopies(object, enqueueWhere);
    enqueueSource(object, enqueueWhere);
  });
  caches.pods.onChange(({ kind: change, object }) => {
    if (change === 'deleted') startWaits.forget(object.metadata.uid);
    const owner = object.metadata.ownerReferences?.find((each) => each.controller === true);
    if (owner?.kind === kind) controller.enqueue(`${object.metadata.namespace}/${owner.name}`);
  });
  followUsers(caches, enqueueWhere, tryAtOnce);
  if (kind === 'Image') followClaims(caches, enqueueWhere);
  // A credential that came or was rotated: what was refused may be allowed now.
  informers
    .get(secrets, { fieldSelector: `metadata.name=${objectNames.pullSecret}` })
    .onChange(({ object }) => {
      enqueueWhere(object.metadata.namespace, (disk) => {
        tryAtOnce(disk);
        return requestOf(disk) !== undefined && isUnfinished(disk);
      });
    });
  return controller;
}

/** Enqueues the disks of a namespace, or of all, that wait for something else than their own object. */
type EnqueueWhere = (namespace: string | undefined, isMeant: (disk: Disk) => boolean) => void;

/** Copies wait until what they are made from has a digest. */
function enqueueCopies({ metadata }: Disk, enqueueWhere: EnqueueWhere): void {
  enqueueWhere(
    metadata.namespace,
    ({ spec, status }) => spec.source.image?.name === metadata.name && status?.digest === undefined,
  );
}

/** What is being deleted waits until it is copied. */
function enqueueSource({ metadata, spec }: Disk, enqueueWhere: EnqueueWhere): void {
  const { image } = spec.source;
  if (image === undefined) return;
  enqueueWhere(metadata.namespace, (disk) => disk.metadata.name === image.name && isTerminating(disk));
}

/** VMs, VMConfigs and VMPools: a disk may be saved from a VM, and one that is being deleted waits until nobody uses it. */
function followUsers(
  { vms, vmConfigs, vmPools }: ImageCaches,
  enqueueWhere: EnqueueWhere,
  tryAtOnce: (disk: Disk) => void,
): void {
  vms.onChange((change) => {
    const { name, namespace } = change.object.metadata;
    enqueueWhere(namespace, (disk) => {
      const isWaiting = waitsFor(disk, name);
      if (isWaiting && hasMoved(change)) tryAtOnce(disk);
      return isWaiting;
    });
    for (const where of namespacesConcerned(change)) enqueueWhere(where, isTerminating);
  });
  vmConfigs.onChange((change) => {
    if (!leavesSpec(change)) enqueueWhere(change.object.metadata.namespace, isTerminating);
  });
  vmPools.onChange((change) => {
    // Of the status, what the guests of the pool were made from.
    if (leavesSpec(change) && leaves(change, ({ status }) => status?.images)) return;
    enqueueWhere(change.object.metadata.namespace, isTerminating);
  });
}

/** An Image that is being deleted waits for the claims with disks that were made on it. */
function followClaims({ claims }: ImageCaches, enqueueWhere: EnqueueWhere): void {
  claims.onChange((change) => {
    if (mayFreeImage(change)) enqueueWhere(change.object.metadata.namespace, isTerminating);
  });
}

function mayFreeImage(change: Change<PersistentVolumeClaim>): boolean {
  const { kind, object } = change;
  if (kind === 'added') return false;
  if (kind === 'deleted') return diskImagesOf(object).length > 0;
  const usesOf = (claim: PersistentVolumeClaim) => `${isTerminating(claim)} ${diskImagesOf(claim).join()}`;
  return usesOf(change.old) !== usesOf(object);
}

/**
 * Namespaces in which a disk may have another use since a VM has changed. Statuses change all the time, and each disk that is being deleted is looked at with
 * all VMs of its namespace.
 */
function namespacesConcerned(change: Change<Vm>): ReadonlySet<string> {
  const { object } = change;
  if (change.kind === 'updated' && usesSameDisks(change.old, object)) return new Set();
  const versions = change.kind === 'updated' ? [change.old, object] : [object];
  return new Set([object.metadata.namespace, ...versions.flatMap(configNamespaceIndex.configNamespace)]);
}

function waitsFor(disk: Disk, vm: string | undefined): boolean {
  return vmNameOf(disk) === vm && isUnfinished(disk);
}

function isUnfinished({ metadata, status }: Disk): boolean {
  return status?.digest === undefined || status.observedGeneration !== metadata.generation;
}
