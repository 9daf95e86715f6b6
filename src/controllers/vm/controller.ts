import type { Node, PersistentVolumeClaim, Pod, Secret } from '../../api/core.ts';
import { annotations, labels, objectNames } from '../../api/meta.ts';
import {
  images,
  isos,
  nodes,
  persistentVolumeClaims,
  pods,
  secrets,
  vmConfigs,
  vms,
} from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';
import { type Controller, createController, keyOf, splitKey } from '../../controller/controller.ts';
import type { Runtime } from '../../controller/runtime.ts';
import type { Priority } from '../../controller/workqueue.ts';
import type { KubeObject } from '../../api/object.ts';
import type { Change, Informer } from '../../kube/types.ts';
import { Inventory } from '../../placement/inventory.ts';
import { nodeFacts } from '../../placement/nodefacts.ts';
import { accountPods, podNameIndex, vmsNamedBy } from './accounting.ts';
import { DeployBackoff } from './deploybackoff.ts';
import { VmExpectations } from './expectations.ts';
import { createLiveLists } from './life/livelists.ts';
import { podNameOf } from './names.ts';
import { slimPod } from './pod/slimpod.ts';
import { isLost } from './pod/podstate.ts';
import { VmReconciler } from './reconciler.ts';
import { ImageResolutions } from './resolve/imageresolutions.ts';
import type { ImageResolver } from './resolve/resolve.ts';
import { type OpenRunner, RunnerLinks } from './runner/runnerlinks.ts';
import type { VmSettings } from './settings.ts';
import { debounced, paced } from './pacing.ts';
import { WaitingVms } from './waiting.ts';

export interface VmControllerParts {
  readonly resolver?: ImageResolver | undefined;
  readonly openRunner?: OpenRunner | undefined;
  /** Text of the annotation `svc3.dev/control-keys`. */
  controlKeys(): string;
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
const perSentenceMs = 20;

/** Keeps every VM's pod as its spec says. */
export function createVmController(runtime: Runtime<VmSettings>, parts: VmControllerParts): Controller {
  const { informers, settings, log } = runtime;
  const vmInformer = informers.get(vms);
  const podInformer = informers.get(pods, { transform: slimPod });
  const nodeInformer = informers.get(nodes);
  const configInformer = informers.get(vmConfigs);
  const imageInformer = informers.get(images);
  const isoInformer = informers.get(isos);
  const pullSecrets = informers.get(secrets, { fieldSelector: `metadata.name=${objectNames.pullSecret}` });
  const monotonic = () => performance.now();

  const inventory = new Inventory(settings.portRanges);
  const expectations = new VmExpectations(podInformer, monotonic);
  const backoff = new DeployBackoff(monotonic);
  const waiting = new WaitingVms(inventory, (key) => controller.enqueue(key));
  const resolutions =
    parts.resolver === undefined
      ? undefined
      : new ImageResolutions(parts.resolver, (key) => controller.enqueue(key), monotonic);
  const runners =
    parts.openRunner === undefined
      ? undefined
      : new RunnerLinks(parts.openRunner, (key) => controller.enqueue(key), monotonic);
  const claimInformer = informers.get(persistentVolumeClaims, { labelSelector: `${labels.managedBy}=svc3` });
  const reconciler = new VmReconciler({
    client: runtime.client,
    recorder: runtime.recorder,
    vms: vmInformer,
    nodes: nodeInformer,
    claims: claimInformer,
    sources: {
      vmConfig: (name, namespace) => configInformer.get(name, namespace),
      image: (name, namespace) => imageInformer.get(name, namespace),
      iso: (name, namespace) => isoInformer.get(name, namespace),
      answer: (key, namespace, reference) => resolutions?.resolve(key, namespace, reference),
      settings,
    },
    images: {
      cached: (namespace) => imageInformer.list(namespace),
      live: createLiveLists(async (namespace) => (await runtime.client.list(images, { namespace })).items),
    },
    settings,
    inventory,
    waiting,
    backoff,
    expectations,
    runners,
    controlKeys: () => parts.controlKeys(),
    kvmGroups: (node) => kvmGroupsOf(node === undefined ? nodeInformer.list() : [nodeInformer.get(node)]),
    pullSecretVersion: (namespace) => versionOf(pullSecrets.get(objectNames.pullSecret, namespace)),
    now: () => new Date(),
  });
  const controller = createController({
    name: 'vm',
    workers,
    priorityOf: (key) => priorityOf(key, vmInformer, expectations),
    log,
    gate: runtime.gate,
    metrics: runtime.metrics.controllers,
    reconcile: (key) => reconciler.reconcile(key),
  });

  const retryWaiting = debounced(() => waiting.retry(), retryDelayMs);
  const wakeOutdated = paced(() => waiting.wakeOutdated(), outdatedDelayMs, perSentenceMs);
  const changed = () => {
    if (waiting.size > 0) wakeOutdated();
  };
  vmInformer.addIndexes(podNameIndex);
  // By its name: also a pod that is not the VM's, and only in the way.
  const enqueueVm = (object: Pod | PersistentVolumeClaim) => {
    for (const vm of vmsNamedBy(vmInformer, object)) controller.enqueue(keyOf(vm));
  };
  accountPods({ pods: podInformer, vms: vmInformer, inventory, freed: retryWaiting });
  podInformer.onChange(({ object }) => enqueueVm(object));
  followNodes(nodeInformer, podInformer, inventory, retryWaiting, enqueueVm);
  claimInformer.onChange(({ kind, object }) => {
    if (kind === 'deleted') enqueueVm(object);
  });
  podInformer.onChange(changed);
  nodeInformer.onChange(changed);
  vmInformer.onChange(({ object }) => controller.enqueue(keyOf(object)));
  const wakeUnplaced = (namespace: string) => {
    for (const vm of vmInformer.list(namespace)) {
      if (vm.status?.podName !== undefined) continue;
      backoff.clear(vm.metadata.uid ?? '');
      controller.enqueue(keyOf(vm));
    }
  };
  for (const informer of [configInformer, imageInformer, isoInformer] as Informer<KubeObject>[]) {
    informer.onChange(({ object }) => wakeUnplaced(object.metadata?.namespace ?? ''));
  }
  // What a deletion waits for.
  imageInformer.onChange(({ object }) => {
    for (const vm of vmInformer.list(object.metadata.namespace))
      if (vm.metadata.deletionTimestamp !== undefined) controller.enqueue(keyOf(vm));
  });
  parts.resolver?.onCredential(wakeUnplaced);
  pullSecrets.onChange(({ object }) => {
    const namespace = object.metadata.namespace ?? '';
    wakeUnplaced(namespace);
    for (const vm of vmInformer.list(namespace)) if (!isBooted(vm)) controller.enqueue(keyOf(vm));
  });
  return controller;
}

/**
 * Pods first, statuses later: writes take turns at kube-apiserver, in a burst a VM's pod is worth more than another VM's
 * status, and a status that comes a little later often tells in one write what else were two.
 */
function priorityOf(key: string, informer: Informer<Vm>, expectations: VmExpectations): Priority {
  const { namespace = '', name } = splitKey(key);
  const vm = informer.get(name, namespace);
  if (vm === undefined || vm.metadata.deletionTimestamp !== undefined) return 'normal';
  const { observedGeneration = vm.metadata.generation } = vm.status ?? {};
  const isAsked = observedGeneration !== vm.metadata.generation;
  return isAsked || expectations.pod(podNameOf(name), namespace) === undefined ? 'normal' : 'low';
}

function followNodes(
  informer: Informer<Node>,
  podInformer: Informer<Pod>,
  inventory: Inventory,
  freed: () => void,
  enqueueVm: (pod: Pod) => void,
): void {
  podInformer.addIndexes({ node: (pod) => (pod.spec.nodeName === undefined ? [] : [pod.spec.nodeName]) });
  informer.onChange((change) => {
    const { object } = change;
    const name = object.metadata.name ?? '';
    if (change.kind === 'deleted') {
      inventory.removeNode(name);
      return;
    }
    inventory.setNode(nodeFacts(object));
    freed();
    if (!lostFlipped(change)) return;
    for (const pod of podInformer.byIndex('node', name)) enqueueVm(pod);
  });
}

function lostFlipped(change: Change<Node>): boolean {
  return change.kind === 'updated' && isLost(change.old) !== isLost(change.object);
}

function isBooted(vm: Vm): boolean {
  return vm.status?.conditions?.some(({ type, status }) => type === 'Booted' && status === 'True') ?? false;
}

function versionOf(secret: Secret | undefined): string | undefined {
  return secret?.metadata.resourceVersion;
}

function kvmGroupsOf(nodesToJoin: readonly (Node | undefined)[]): readonly number[] {
  const groups = nodesToJoin.map(kvmGroupOf).filter((group) => group !== undefined);
  return [...new Set(groups)].toSorted((a, b) => a - b);
}

/** The group that the node agent found on /dev/kvm; an annotation that is not JSON says nothing. */
function kvmGroupOf(node: Node | undefined): number | undefined {
  try {
    const hardware: unknown = JSON.parse(node?.metadata.annotations?.[annotations.hardware] ?? '{}');
    const gid = (hardware as { kvm?: { gid?: unknown } }).kvm?.gid;
    return typeof gid === 'number' && Number.isInteger(gid) && gid > 0 ? gid : undefined;
  } catch {
    return undefined;
  }
}
