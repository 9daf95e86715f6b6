import type { Node, Pod } from '../../api/core.ts';
import { configNamespaceIndex } from '../../api/configkey.ts';
import { diskClaimSelector } from '../../api/diskimage.ts';
import { labels, objectNames } from '../../api/meta.ts';
import { isTerminating } from '../../api/owner.ts';
import {
  images,
  isos,
  nodes,
  persistentVolumeClaims,
  pods,
  secrets,
  vmConfigs,
  vmPools,
  vms,
} from '../../api/resources.ts';
import { slimObject } from '../../api/slim.ts';
import type { Image, Iso } from '../../api/image.ts';
import type { Vm } from '../../api/vm.ts';
import { leaves, leavesSpec } from '../../controller/change.ts';
import { type Controller, createController, isCached, keyOf } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Change, Informer } from '../../kube/types.ts';
import { Inventory } from '../../placement/inventory.ts';
import { nodeFacts } from '../../placement/nodefacts.ts';
import { vmNameOf } from '../image/names.ts';
import { readByUsers } from '../image/nameddisk.ts';
import { accountPods, podNameIndex, vmsNamedBy } from './accounting.ts';
import { DeployBackoff } from './deploybackoff.ts';
import { VmExpectations } from './expectations.ts';
import { StartWaits } from '../startwaits.ts';
import { createLiveLists } from '../../controller/livelists.ts';
import { isOfPool, isWithoutPod, poolIndex, waitsForGuest } from './facts/standby.ts';
import { PoolClaims } from './pool/poolclaims.ts';
import { Neighbourhood } from './pool/neighbourhood.ts';
import { Standbys } from './pool/standbys.ts';
import { type ClaimObserver, unobserved } from './pool/claimobserver.ts';
import { isAsleep } from './facts/hibernation.ts';
import { slimPod } from './pod/slimpod.ts';
import { kvmGroupOf } from './facts/kvm.ts';
import { isLost, isPodReady } from './facts/podstate.ts';
import { isDue } from './facts/requests.ts';
import { claimIndex } from './facts/claim.ts';
import { PodResize } from './pod/podresize.ts';
import { ClaimGrowth } from './pod/claimgrowth.ts';
import { LabelRenewal } from './pod/labelrenewal.ts';
import { priorityOf } from './priority.ts';
import { NextPod } from './nextpod.ts';
import { NodeChoice, type PlacementDecided } from './nodechoice.ts';
import { PodCreation } from './podcreation.ts';
import type { StartTraces } from './starts/starttraces.ts';
import { StatusWriter } from './status/statuswriter.ts';
import { VmReconciler } from './reconciler.ts';
import { type DiskName, namesDisk } from './resolve/disknames.ts';
import { ImageResolutions } from './resolve/imageresolutions.ts';
import type { ResolveSources } from './resolve/resolve.ts';
import type { ImageResolver } from './resolve/imageresolutions.ts';
import { controlKeySecrets } from './runner/controlkeys.ts';
import { type OpenRunner, RunnerLinks } from './runner/runnerlinks.ts';
import type { VmSettings } from './settings.ts';
import { debounced, paced } from './pacing.ts';
import { WaitingVms } from './waiting.ts';

export interface VmControllerParts {
  readonly resolver?: ImageResolver | undefined;
  readonly openRunner?: OpenRunner | undefined;
  /** Text of the annotation `svc3.dev/control-keys`. */
  controlKeys(): string;
  readonly claims?: ClaimObserver;
  readonly placed?: PlacementDecided;
  /** Where traces of starts go to; undefined: there are none. */
  readonly starts?: StartTraces | undefined;
}

/** What the controllers of VMs and of pools share: what is free on nodes, and which waiting guest is promised to which VM. */
export interface Shared {
  readonly inventory: Inventory;
  readonly standbys: Standbys;
  /** VMs that wait for a node: those that fit on one now get it reserved. */
  readonly waiting: Pick<WaitingVms, 'retry'>;
  readonly resolver: ImageResolver | undefined;
  controlKeys(): string;
  kvmGroups(node: string | undefined): readonly number[];
  pullSecretVersion(namespace: string): string | undefined;
}

export interface VmController extends Controller {
  readonly shared: Shared;
}

/**
 * A pass waits for nothing but kube-apiserver, which is busy with fewer: more only make each write wait longer, those of other
 * namespaces too.
 */
const workers = 16;
/** Nodes and pods change in bursts: those who wait are tried once for each. */
const retryDelayMs = 25;
/** Milliseconds after a change in which the messages of VMs that wait for a node are brought up to date. */
const outdatedDelayMs = 1_000;
/** Milliseconds that each rewritten message puts off the next look: under constant change no more than 50 are written in a second. */
const perMessageMs = 20;

/** What the controller reads, from memory. */
function createCaches({ informers }: Runtime<VmSettings>) {
  const vmInformer = informers.get(vms);
  const podInformer = informers.get(pods, { transform: slimPod });
  vmInformer.addIndexes({ ...podNameIndex, ...claimIndex, ...configNamespaceIndex });
  podInformer.addIndexes({ ...poolIndex });
  vmInformer.addIndexes({
    pool: ({ metadata, spec }) => (spec.pool === undefined ? [] : [`${metadata.namespace}/${spec.pool}`]),
  });
  podInformer.addIndexes({ node: (pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) });
  return {
    vms: vmInformer,
    pods: podInformer,
    nodes: informers.get(nodes),
    configs: informers.get(vmConfigs),
    pools: informers.get(vmPools),
    images: informers.get(images),
    isos: informers.get(isos),
    /** Of Persistent disks. */
    claims: informers.get(persistentVolumeClaims, { labelSelector: diskClaimSelector }),
    pullSecrets: informers.get(secrets, { fieldSelector: `metadata.name=${objectNames.pullSecret}` }),
    keySecrets: controlKeySecrets(informers),
  };
}

type Caches = ReturnType<typeof createCaches>;

/** What is kept in memory beside the caches; it may be lost at any time. */
function createMemory(
  { settings }: Runtime<VmSettings>,
  { resolver, openRunner }: VmControllerParts,
  caches: Caches,
  wake: (key: string) => void,
) {
  const monotonic = () => performance.now();
  const inventory = new Inventory(settings.portRanges);
  return {
    inventory,
    standbys: new Standbys(caches, new Neighbourhood(inventory)),
    expectations: new VmExpectations(caches.pods, monotonic),
    backoff: new DeployBackoff(monotonic),
    startWaits: new StartWaits(monotonic),
    waiting: new WaitingVms(inventory, wake),
    resolutions: resolver === undefined ? undefined : new ImageResolutions(resolver, wake, monotonic),
    runners: openRunner === undefined ? undefined : new RunnerLinks(openRunner, wake, monotonic, settings),
  };
}

type Memory = ReturnType<typeof createMemory>;

function createReconciler(
  { client, recorder, settings }: Runtime<VmSettings>,
  parts: VmControllerParts,
  caches: Caches,
  { inventory, standbys, expectations, backoff, startWaits, waiting, resolutions, runners }: Memory,
): VmReconciler {
  const now = () => new Date();
  const monotonic = () => performance.now();
  const { claims: observer = unobserved, starts } = parts;
  const controlKeys = () => parts.controlKeys();
  const { kvmGroups, pullSecretVersion } = readersOf(caches);
  const status = new StatusWriter({ client, recorder, expectations, now });
  const sources: ResolveSources = {
    ...configSources(caches),
    image: (name, namespace) => caches.images.get(name, namespace),
    iso: (name, namespace) => caches.isos.get(name, namespace),
    claim: (name, namespace) => caches.claims.get(name, namespace),
    answer: (key, namespace, reference, sought) => resolutions?.resolve(key, namespace, reference, sought),
    settings,
  };
  const liveImages = createLiveLists(
    async (namespace) => (await client.list(images, { namespace, transform: slimObject })).items,
  );
  return new VmReconciler({
    client,
    recorder,
    observer: {
      ...caches,
      images: (namespace) => caches.images.list(namespace),
      sources,
      expectations,
      startWaits,
      pullSecretVersion,
      saveWaitMs: settings.saveWaitMs,
      now,
    },
    podCreation: new PodCreation({
      client,
      sources,
      settings,
      nodeChoice: new NodeChoice({
        inventory,
        waiting,
        backoff,
        whenFull: settings.whenFull,
        placed: parts.placed,
      }),
      nextPod: new NextPod({ sources, settings, starts, controlKeys, kvmGroups, pullSecretVersion }),
      poolClaims: new PoolClaims({ client, expectations, status, standbys, observer, starts, monotonic }),
      expectations,
      nodes: caches.nodes,
      liveImages,
      starts,
    }),
    claimGrowth: new ClaimGrowth({ client, recorder, monotonic }),
    podResize: new PodResize({ client, inventory, settings, now: monotonic }),
    labelRenewal: new LabelRenewal({ client, monotonic }),
    runners,
    starts,
    expectations,
    status,
    liveImages,
    controlKeys,
    now,
  });
}

/** Where a VM that says something of its settings only by a name finds them. */
function configSources({ configs, pools }: Caches): Required<Pick<ResolveSources, 'vmConfig' | 'vmPool'>> {
  return {
    vmConfig: (name, namespace) => configs.get(name, namespace),
    vmPool: (name, namespace) => pools.get(name, namespace),
  };
}

function readersOf({
  nodes: nodeCache,
  pullSecrets,
}: Caches): Pick<Shared, 'kvmGroups' | 'pullSecretVersion'> {
  return {
    kvmGroups: (node) => kvmGroupsOf(node === undefined ? nodeCache.list() : [nodeCache.get(node)]),
    pullSecretVersion: (namespace) =>
      pullSecrets.get(objectNames.pullSecret, namespace)?.metadata.resourceVersion,
  };
}

/** Keeps every VM's pod as its spec says. */
export function createVmController(runtime: Runtime<VmSettings>, parts: VmControllerParts): VmController {
  const caches = createCaches(runtime);
  const memory = createMemory(runtime, parts, caches, (key) => controller.enqueue(key));
  const reconciler = createReconciler(runtime, parts, caches, memory);
  const controller: Controller = createController({
    name: 'vm',
    isThere: (key) => isCached(caches.vms, key),
    workers,
    priorityOf: (key) => priorityOf(key, caches, memory.expectations),
    log: runtime.log,
    gate: runtime.gate,
    metrics: runtime.metrics.controllers,
    reconcile: (key) => reconciler.reconcile(key),
  });
  // What nodes have left is counted before a VM is looked at.
  followCapacity(caches, memory, controller);
  followVms(caches, memory, controller);
  followSources(caches, memory, controller, parts.resolver);
  followPools(caches, controller);
  followControlKeys(caches, controller);
  const { inventory, standbys, waiting } = memory;
  const shared: Shared = {
    inventory,
    standbys,
    waiting,
    resolver: parts.resolver,
    controlKeys: () => parts.controlKeys(),
    ...readersOf(caches),
  };
  return Object.assign(controller, { shared });
}

/** A VM, its pod and its claim wake it; by their name: also what is not the VM's, and only in the way. */
function followVms(caches: Caches, { startWaits }: Memory, controller: Controller): void {
  const enqueueHolders = (claim: string) => {
    for (const vm of caches.vms.byIndex('claim', claim)) controller.enqueue(keyOf(vm));
  };
  caches.vms.onChange(({ kind, object }) => {
    controller.enqueue(keyOf(object));
    // Another VM may have named a claim that was its.
    if (kind === 'deleted') for (const claim of claimIndex.claim(object)) enqueueHolders(claim);
  });
  caches.pods.onChange(({ kind, object }) => {
    if (kind === 'deleted') startWaits.forget(object.metadata.uid);
    enqueueNamed(caches, controller, object);
  });
  caches.claims.onChange(({ kind, object }) => {
    if (kind === 'updated') return;
    const { name, namespace } = object.metadata;
    enqueueHolders(`${namespace}/${name}`);
  });
}

function enqueueNamed(caches: Caches, controller: Controller, object: Pod): void {
  for (const vm of vmsNamedBy(caches.vms, object)) controller.enqueue(keyOf(vm));
}

/** New control keys go into the annotation of every VM's pod: a VM that nothing else happens to would keep the old ones for ever. */
function followControlKeys(caches: Caches, controller: Controller): void {
  caches.keySecrets.onChange(({ kind }) => {
    if (kind === 'deleted') return;
    for (const vm of caches.vms.list()) if (vm.status?.podName !== undefined) controller.enqueue(keyOf(vm));
  });
}

/** What nodes have and pods take of them, and the VMs that wait for some of it. */
function followCapacity(caches: Caches, { inventory, waiting }: Memory, controller: Controller): void {
  const retryWaiting = debounced(() => waiting.retry(), retryDelayMs);
  const rest = { isLeft: () => waiting.hasMoreOutdated, goOn: () => waiting.wakeMoreOutdated() };
  const wakeOutdated = paced(() => waiting.wakeOutdated(), outdatedDelayMs, perMessageMs, rest);
  const changed = () => {
    if (waiting.size > 0) wakeOutdated();
  };
  const came = () => {
    if (waiting.dependsOnOtherPods) retryWaiting();
  };
  const standbyKey = (pod: Pod) =>
    isOfPool(pod) && caches.pools.get(poolOf(pod), pod.metadata.namespace) !== undefined
      ? keyOf(pod)
      : undefined;
  accountPods({ pods: caches.pods, vms: caches.vms, inventory, standbyKey, freed: retryWaiting, came });
  followNodes(caches, inventory, retryWaiting, (pod) => enqueueNamed(caches, controller, pod));
  caches.pods.onChange(changed);
  caches.nodes.onChange(changed);
}

/** VMs that are woken for one guest that waits: more would only look. */
const wokenPerStandby = 2;

/** A pool that is new, and a guest that waits, are what VMs of the pool wait for that no node takes. */
function followPools(caches: Caches, controller: Controller): void {
  const wake = (pool: string, isMeant: (vm: Vm) => boolean, most: number) => {
    const woken = caches.vms.byIndex('pool', pool).filter(isMeant);
    for (const vm of woken.slice(0, most)) controller.enqueue(keyOf(vm));
  };
  caches.pods.onChange(({ kind, object }) => {
    if (kind === 'deleted' || !isOfPool(object) || !isPodReady(object)) return;
    for (const pool of poolIndex.pool(object)) wake(pool, waitsForGuest, wokenPerStandby);
  });
  caches.pools.onChange((change) => {
    if (!leavesSpec(change)) wake(keyOf(change.object), isWithoutPod, Infinity);
  });
}

/** What a VM is made from, and what its deletion waits for. */
function followSources(
  caches: Caches,
  { backoff }: Memory,
  controller: Controller,
  resolver: ImageResolver | undefined,
): void {
  const enqueueWhere = (namespace: string, isMeant: (vm: Vm) => boolean) => {
    const fromElsewhere = caches.vms.byIndex('configNamespace', namespace);
    for (const vm of [...caches.vms.list(namespace), ...fromElsewhere])
      if (isMeant(vm)) controller.enqueue(keyOf(vm));
  };
  const wakeUnplaced = (namespace: string, isHelped: (vm: Vm) => boolean = () => true) =>
    enqueueWhere(namespace, (vm) => {
      if (vm.status?.podName !== undefined) return false;
      if (isHelped(vm)) backoff.retryNow(vm.metadata.uid);
      return true;
    });
  caches.configs.onChange((change) => {
    if (!leavesSpec(change)) wakeUnplaced(change.object.metadata.namespace);
  });
  const sources = configSources(caches);
  const followDisks = (field: DiskName['field'], disks: Informer<Image> | Informer<Iso>) =>
    disks.onChange((change: Change<Image | Iso>) => {
      if (leaves(change, readByUsers)) return;
      const { name, namespace } = change.object.metadata;
      // What refused the pod of a VM that is made from another disk is as it was.
      wakeUnplaced(namespace, (vm) => namesDisk(vm, { field, name, namespace }, sources));
    });
  followDisks('image', caches.images);
  followDisks('iso', caches.isos);
  caches.images.onChange((change) => {
    const { namespace } = change.object.metadata;
    for (const name of vmsWanted(change)) {
      const vm = caches.vms.get(name, namespace);
      if (vm !== undefined && mayWaitForSave(vm)) controller.enqueue(keyOf(vm));
    }
  });
  resolver?.onCredential((namespace) => wakeUnplaced(namespace));
  caches.pullSecrets.onChange(({ object }) => {
    const { namespace } = object.metadata;
    wakeUnplaced(namespace);
    enqueueWhere(namespace, (vm) => !isBooted(vm));
  });
}

/** Names of the VMs whose disks an Image is made from, or was to be before a commit was withdrawn. */
function vmsWanted(change: Change<Image>): ReadonlySet<string> {
  const versions = change.kind === 'updated' ? [change.old, change.object] : [change.object];
  return new Set(versions.map(vmNameOf).filter((name) => name !== undefined));
}

/** Its pod stays for what is made of its disk, or is made for that. */
function mayWaitForSave(vm: Vm): boolean {
  if (isTerminating(vm) || isDue(vm, 'revertRequest')) return true;
  return isAsleep(vm) && vm.status?.podName !== undefined;
}

function followNodes(
  caches: Caches,
  inventory: Inventory,
  freed: () => void,
  enqueue: (pod: Pod) => void,
): void {
  caches.nodes.onChange((change) => {
    const { object } = change;
    const name = object.metadata.name;
    if (change.kind === 'deleted') {
      inventory.removeNode(name);
      return;
    }
    inventory.setNode(nodeFacts(object));
    freed();
    if (!lostFlipped(change)) return;
    for (const pod of caches.pods.byIndex('node', name)) enqueue(pod);
  });
}

function poolOf({ metadata }: Pod): string {
  return metadata.labels?.[labels.pool] ?? '';
}

function lostFlipped(change: Change<Node>): boolean {
  return change.kind === 'updated' && isLost(change.old) !== isLost(change.object);
}

function isBooted(vm: Vm): boolean {
  return vm.status?.conditions?.some(({ type, status }) => type === 'Booted' && status === 'True') ?? false;
}

function kvmGroupsOf(nodesToJoin: readonly (Node | undefined)[]): readonly number[] {
  const groups = nodesToJoin.map(kvmGroupOf).filter((group) => group !== undefined);
  return [...new Set(groups)].toSorted((a, b) => a - b);
}
