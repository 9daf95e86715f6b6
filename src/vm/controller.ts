import type { Node, PersistentVolumeClaim, Pod, Secret } from '../api/core.ts';
import { annotations, labels, objectNames, podNamePrefix } from '../api/meta.ts';
import {
  images,
  isos,
  nodes,
  persistentVolumeClaims,
  pods,
  secrets,
  vmConfigs,
  vms,
} from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import { type Controller, createController, keyOf } from '../controller/controller.ts';
import type { Runtime } from '../controller/runtime.ts';
import type { Change, Informer, KubeObject } from '../kube/types.ts';
import { Inventory } from '../placement/inventory.ts';
import { nodeFacts } from '../placement/nodefacts.ts';
import { podFacts } from '../placement/podfacts.ts';
import { Attempts } from './attempts.ts';
import { OwnWrites } from './caches.ts';
import { podNameOf } from './names.ts';
import { Newcomers } from './newcomers.ts';
import { slimPod } from './slimpod.ts';
import { isLost } from './podstate.ts';
import { VmReconciler } from './reconciler.ts';
import type { ImageResolver } from './resolve.ts';
import { type OpenRunner, RunnerLinks } from './runnerlinks.ts';
import type { VmSettings } from './settings.ts';
import { debounced, paced } from './pacing.ts';
import { WaitingVms } from './waiting.ts';

export interface VmControllerParts {
  readonly resolver?: ImageResolver | undefined;
  readonly openRunner?: OpenRunner | undefined;
  /** Text of the annotation `svc3.dev/control-keys`. */
  controlKeys(): string;
}

/** Enough to keep one connection busy; a pass waits for kube-apiserver most of its time. */
const workers = 48;
/** Nodes and pods change in bursts: those who wait are tried once for each. */
const retryDelayMs = 25;
/** So soon the sentences of those who wait are made true again, in milliseconds. */
const outdatedDelayMs = 1_000;
/** What each rewritten sentence puts off the next look: under constant change no more than 50 are written in a second. */
const perSentenceMs = 20;

/** Keeps every VM's pod as its spec wishes. */
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
  const own = new OwnWrites(podInformer, monotonic);
  const newcomers = new Newcomers((key) => controller.enqueue(key));
  const attempts = new Attempts(monotonic);
  const waiting = new WaitingVms(inventory, (key) => controller.enqueue(key));
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
      resolver: parts.resolver,
      settings,
    },
    settings,
    inventory,
    waiting,
    attempts,
    own,
    newcomers,
    runners,
    controlKeys: () => parts.controlKeys(),
    kvmGroup: (node) => kvmGroupOf(nodeInformer.get(node)),
    pullSecretVersion: (namespace) => versionOf(pullSecrets.get(objectNames.pullSecret, namespace)),
    now: () => new Date(),
  });
  const controller = createController({
    name: 'vm',
    workers,
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
  // By its name: also a pod that is not the VM's, and only in the way.
  vmInformer.addIndexes({
    podName: ({ metadata }) => [`${metadata.namespace ?? ''}/${podNameOf(metadata.name ?? '')}`],
  });
  const enqueueVm = ({ metadata }: Pod | PersistentVolumeClaim) => {
    const name = metadata.name ?? '';
    if (!name.startsWith(podNamePrefix)) return;
    for (const vm of vmInformer.byIndex('podName', `${metadata.namespace ?? ''}/${name}`)) {
      controller.enqueue(keyOf(vm));
    }
  };
  followPods(podInformer, inventory, retryWaiting, enqueueVm);
  followNodes(nodeInformer, podInformer, inventory, retryWaiting, enqueueVm);
  claimInformer.onChange(({ kind, object }) => {
    if (kind === 'deleted') enqueueVm(object);
  });
  podInformer.onChange(changed);
  nodeInformer.onChange(changed);
  vmInformer.onChange(({ kind, object }) => {
    const key = keyOf(object);
    if (kind === 'added' && object.status?.podName === undefined) newcomers.came(key);
    else if (kind === 'deleted') newcomers.saw(key);
    controller.enqueue(key);
  });
  const wakeUnplaced = (namespace: string) => {
    for (const vm of vmInformer.list(namespace)) {
      if (vm.status?.podName !== undefined) continue;
      attempts.clear(vm.metadata.uid ?? '');
      controller.enqueue(keyOf(vm));
    }
  };
  for (const informer of [configInformer, imageInformer, isoInformer] as Informer<KubeObject>[]) {
    informer.onChange(({ object }) => wakeUnplaced(object.metadata?.namespace ?? ''));
  }
  pullSecrets.onChange(({ object }) => {
    const namespace = object.metadata.namespace ?? '';
    wakeUnplaced(namespace);
    for (const vm of vmInformer.list(namespace)) if (!isBooted(vm)) controller.enqueue(keyOf(vm));
  });
  return controller;
}

function followPods(
  informer: Informer<Pod>,
  inventory: Inventory,
  freed: () => void,
  enqueueVm: (pod: Pod) => void,
): void {
  informer.onChange(({ kind, object }) => {
    const uid = object.metadata.uid ?? '';
    const facts = kind === 'deleted' ? undefined : podFacts(object);
    if (facts !== undefined) inventory.setPod(facts);
    else if (inventory.removePod(uid)) freed();
    enqueueVm(object);
  });
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
