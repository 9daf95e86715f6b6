import { isDeepStrictEqual } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import type { Lease, Node, Pod, PodStatus } from '../../src/api/core.ts';
import { leases, nodes, pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { createInformer } from '../../src/kube/informer.ts';
import type { Informer, KubeClient } from '../../src/kube/types.ts';
import type { Submitted } from '../../src/api/object.ts';
import { isPodGone } from './podgone.ts';

/** What the kubelet of a simulated node makes of a pod that is bound to it. */
export type PodBehaviour =
  /** Runs and becomes ready; another size than it has is refused where `resize` says so. */
  | { kind: 'run'; podIP?: string; resize?: { reason: 'Deferred' | 'Infeasible'; message: string } }
  /** Stays as it is, e.g. while an image is pulled. */
  | { kind: 'pending' }
  /** The container waits: an image that cannot be pulled, a Secret that is missing. */
  | { kind: 'waiting'; reason: string; message: string }
  /** The kubelet rejects the pod at admission. */
  | { kind: 'reject'; reason: string; message: string }
  /** The container runs and the pod is not ready. */
  | { kind: 'unready'; podIP?: string };

export interface SimulatedNodeSpec {
  name: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  taints?: NonNullable<Node['spec']>['taints'];
  allocatable?: Record<string, string>;
  architecture?: string;
}

export interface SimulatedKubelet {
  /** Creates a Node that is Ready and takes pods. */
  addNode(spec: SimulatedNodeSpec): Promise<void>;
  removeNode(name: string): Promise<void>;
  /** The node falls silent: no heartbeat, and nobody looks after its pods. */
  loseNode(name: string): void;
  /** A node that was lost is back. */
  returnNode(name: string): Promise<void>;
  /** Changes what becomes of pods from now on, and of those that are there already. */
  behave(behaviour: (pod: Pod) => PodBehaviour): void;
  /** Looks at every pod again. */
  again(): void;
  stop(): Promise<void>;
}

/**
 * Plays the nodes of a cluster: Node objects with leases, and what kubelets write about pods. Admission, binding and
 * garbage collection are the real control plane's. It cannot show what a kubelet makes of a pod's spec, images, probes and containers;
 * test/e2e/vm.test.ts and test/life/drain.test.ts do.
 * @param watched - all pods, where the caller has them and runs the informer afterwards
 */
export function simulateKubelet(
  client: KubeClient,
  { heartbeatMs = 10_000, watched }: { heartbeatMs?: number; watched?: Informer<Pod> } = {},
): SimulatedKubelet {
  const stopping = new AbortController();
  const names = new Set<string>();
  let behaviour: (pod: Pod) => PodBehaviour = () => ({ kind: 'run' });
  const informer = watched ?? createInformer({ client, resource: pods });
  const busy = new Map<string, Promise<void>>();
  const again = new Set<string>();

  function look(pod: Pod): void {
    const key = `${pod.metadata.namespace}/${pod.metadata.name}`;
    if (!names.has(pod.spec.nodeName ?? '')) return;
    if (busy.has(key)) {
      again.add(key);
      return;
    }
    const work = drive(pod)
      .catch((error: unknown) => {
        if (!isPodGone(error) && !stopping.signal.aborted) throw error;
      })
      .finally(() => {
        busy.delete(key);
        if (!again.delete(key)) return;
        const now = informer.get(pod.metadata.name ?? '', pod.metadata.namespace);
        if (now !== undefined) look(now);
      });
    busy.set(key, work);
  }

  async function drive(pod: Pod): Promise<void> {
    const { name, namespace, uid, deletionTimestamp } = pod.metadata;
    if (deletionTimestamp !== undefined) {
      await client.delete(
        pods,
        { name, namespace },
        { gracePeriodSeconds: 0, ...(uid === undefined ? {} : { uid }) },
      );
      return;
    }
    const wanted = statusFor(pod, behaviour(pod));
    if (wanted === undefined || isSame(pod.status, wanted)) return;
    await client.patch(
      pods,
      { name, namespace },
      { type: 'merge', body: { metadata: { uid }, status: wanted } },
      { subresource: 'status' },
    );
  }

  informer.onChange(({ kind, object }) => {
    if (kind !== 'deleted') look(object);
  });
  const running = watched === undefined ? informer.run(stopping.signal) : Promise.resolve();
  const beating = heartbeats(client, names, heartbeatMs, stopping.signal);
  const lookAtAll = () => {
    for (const pod of informer.list()) look(pod);
  };

  return {
    async addNode(spec) {
      names.add(spec.name);
      await createNode(client, spec);
      lookAtAll();
    },
    async removeNode(name) {
      names.delete(name);
      await client.delete(nodes, { name });
    },
    loseNode(name) {
      names.delete(name);
    },
    async returnNode(name) {
      names.add(name);
      await renewLease(client, name);
      await becomeReady(client, name);
      lookAtAll();
    },
    behave(next) {
      behaviour = next;
      lookAtAll();
    },
    again: lookAtAll,
    async stop() {
      stopping.abort();
      await Promise.allSettled([running, beating, ...busy.values()]);
    },
  };
}

const readyNode = (at: string) => ({
  type: 'Ready',
  status: 'True' as const,
  reason: 'KubeletReady',
  message: 'simulated',
  lastHeartbeatTime: at,
  lastTransitionTime: at,
});

async function createNode(client: KubeClient, spec: SimulatedNodeSpec): Promise<void> {
  const architecture = spec.architecture ?? 'amd64';
  const allocatable = {
    cpu: '8',
    memory: '32Gi',
    'ephemeral-storage': '100Gi',
    pods: '110',
    ...spec.allocatable,
  };
  // The node lifecycle controller may remember a node of this name that has been deleted, and would call this one lost.
  await renewLease(client, spec.name);
  await client.create(nodes, {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: spec.name,
      labels: {
        'kubernetes.io/arch': architecture,
        'kubernetes.io/os': 'linux',
        'kubernetes.io/hostname': spec.name,
        ...spec.labels,
      },
      ...(spec.annotations === undefined ? {} : { annotations: spec.annotations }),
    },
    spec: spec.taints === undefined ? {} : { taints: spec.taints },
  });
  await client.patch(
    nodes,
    { name: spec.name },
    {
      type: 'merge',
      body: {
        status: {
          conditions: [readyNode(timestamp())],
          addresses: [{ type: 'InternalIP', address: addressOf(spec.name) }],
          capacity: allocatable,
          allocatable,
          nodeInfo: nodeInfo(architecture),
        },
      },
    },
    { subresource: 'status' },
  );
  await untilSchedulable(client, spec.name);
}

/** The node lifecycle controller takes away the taint that every new node has. */
async function untilSchedulable(client: KubeClient, name: string): Promise<void> {
  const isTainted = ({ spec }: Node) =>
    spec?.taints?.some(({ key }) => /^node[.]kubernetes[.]io[/](not-ready|unreachable)/.test(key)) === true;
  for (let i = 0; i < 600; i++) {
    const node = await client.get(nodes, name);
    if (isCalledLost(node)) await becomeReady(client, name);
    else if (!isTainted(node)) return;
    await delay(50);
  }
  throw new Error(`node ${name} keeps its taint not-ready`);
}

/** What the node lifecycle controller makes of a node that has not been heard of for its grace period. */
const isCalledLost = ({ status }: Node): boolean =>
  status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'Unknown') === true;

async function becomeReady(client: KubeClient, name: string): Promise<void> {
  const conditions = [readyNode(timestamp())];
  await client.patch(
    nodes,
    { name },
    { type: 'merge', body: { status: { conditions } } },
    { subresource: 'status' },
  );
}

/**
 * Without a lease that is renewed the node lifecycle controller would call the nodes lost after 40 seconds. Each node has its
 * own moment in every period, as kubelets have: several at once, or in step with what is measured, would be felt there.
 */
async function heartbeats(
  client: KubeClient,
  names: ReadonlySet<string>,
  heartbeatMs: number,
  signal: AbortSignal,
): Promise<void> {
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => undefined);
  while (!signal.aborted) {
    const beats = [...names].map(async (name) => {
      await pause(Math.random() * heartbeatMs);
      if (!signal.aborted && names.has(name)) await beatOnce(client, name).catch(() => undefined);
    });
    await Promise.all([...beats, pause(heartbeatMs)]);
  }
}

/** A kubelet that reads that its node is called lost says that it is not. */
async function beatOnce(client: KubeClient, name: string): Promise<void> {
  await renewLease(client, name);
  if (isCalledLost(await client.get(nodes, name))) await becomeReady(client, name);
}

async function renewLease(client: KubeClient, name: string): Promise<void> {
  const renewTime = `${new Date().toISOString().slice(0, -1)}000Z`;
  const lease: Submitted<Lease> = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, namespace: 'kube-node-lease' },
    spec: { holderIdentity: name, leaseDurationSeconds: 40, renewTime },
  };
  await client.apply(leases, lease, { fieldManager: 'simulated-kubelet' });
}

function statusFor(pod: Pod, behaviour: PodBehaviour): PodStatus | undefined {
  const at = timestamp();
  const node = pod.spec.nodeName ?? '';
  const base = { hostIP: addressOf(node), startTime: pod.status?.startTime ?? at };
  const podIP = ('podIP' in behaviour ? behaviour.podIP : undefined) ?? '127.0.0.1';
  const up = { ...base, podIP, podIPs: [{ ip: podIP }] };
  // As of a kubelet: what runs goes on, whatever becomes of its readiness; a pod gets another address with other containers only.
  const before = pod.status?.containerStatuses?.[0]?.state?.running?.startedAt;
  const running = { startedAt: (pod.status?.podIP === podIP ? before : undefined) ?? at };
  const refusal = 'resize' in behaviour ? behaviour.resize : undefined;
  switch (behaviour.kind) {
    case 'pending':
      return undefined;
    case 'reject':
      return { ...base, phase: 'Failed', reason: behaviour.reason, message: behaviour.message };
    case 'waiting': {
      const { reason, message } = behaviour;
      return { ...base, phase: 'Pending', ...containers({ waiting: { reason, message } }, false) };
    }
    case 'unready':
      return { ...up, phase: 'Running', ...containers({ running }, false) };
    default:
      return { ...up, phase: 'Running', ...containers({ running }, true) };
  }

  function containers(state: object, ready: boolean): Pick<PodStatus, 'conditions' | 'containerStatuses'> {
    const scheduled = pod.status?.conditions?.filter(({ type }) => type === 'PodScheduled') ?? [];
    const status = ready ? ('True' as const) : ('False' as const);
    // As the kubelet does: the time of a condition moves only when its status does.
    const condition = (type: string) => {
      const before = pod.status?.conditions?.find((one) => one.type === type);
      const since = before?.status === status ? before.lastTransitionTime : undefined;
      return { type, status, lastTransitionTime: since ?? at };
    };
    const containerStatuses = pod.spec.containers.map(({ name, image = '', resources = {} }) => ({
      name,
      image,
      imageID: '',
      ready,
      started: ready,
      restartCount: 0,
      state,
      resources: refusal === undefined ? resources : (reported(pod, name) ?? resources),
    }));
    const pending = {
      type: 'PodResizePending',
      status: 'True' as const,
      lastTransitionTime: at,
      ...refusal,
    };
    const isPending = refusal !== undefined && !isOfSize(pod, containerStatuses);
    return {
      conditions: [
        ...scheduled,
        condition('Ready'),
        condition('ContainersReady'),
        ...(isPending ? [pending] : []),
      ],
      containerStatuses,
    };
  }
}

function reported(pod: Pod, container: string) {
  return pod.status?.containerStatuses?.find(({ name }) => name === container)?.resources;
}

function isOfSize({ spec }: Pod, statuses: NonNullable<PodStatus['containerStatuses']>): boolean {
  return statuses.every(({ resources }, i) =>
    isDeepStrictEqual(resources?.requests, spec.containers[i]?.resources?.requests),
  );
}

/** Times aside. */
function isSame(before: PodStatus | undefined, after: PodStatus): boolean {
  const essence = (status: PodStatus | undefined) =>
    JSON.stringify([
      status?.phase,
      status?.reason,
      status?.message,
      status?.podIP,
      status?.conditions?.filter(({ type }) => type === 'Ready').map(({ status: value }) => value),
      status?.conditions?.find(({ type }) => type === 'PodResizePending')?.reason,
      status?.containerStatuses?.map(({ state, resources }) => [
        Object.keys(state ?? {}),
        state?.waiting,
        resources?.requests,
      ]),
    ]);
  return essence(before) === essence(after);
}

function timestamp(): string {
  return `${new Date().toISOString().slice(0, 19)}Z`;
}

function addressOf(node: string): string {
  let sum = 0;
  for (const character of node) sum = (sum * 31 + character.charCodeAt(0)) % 65_000;
  return `192.0.${Math.floor(sum / 254) % 254}.${1 + (sum % 254)}`;
}

function nodeInfo(architecture: string) {
  return {
    architecture,
    bootID: '',
    containerRuntimeVersion: 'simulated://1',
    kernelVersion: '6.1',
    kubeletVersion: 'v1.36.3',
    machineID: '',
    operatingSystem: 'linux',
    osImage: 'simulated',
    systemUUID: '',
  };
}

/**
 * Deletes the pods of VMs that are gone. The garbage collector does the same, but learns of new CRDs only every 30
 * seconds, which is longer than most test files take.
 */
export function collectVmPods(
  client: KubeClient,
  watched?: { pods: Informer<Pod>; vms: Informer<Vm> },
): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const podInformer = watched?.pods ?? createInformer({ client, resource: pods });
  const vmInformer = watched?.vms ?? createInformer({ client, resource: vms });
  const gone = new Set<string>();
  const collect = ({ metadata }: Pod): void => {
    if (!metadata.ownerReferences?.some(({ uid }) => gone.has(uid))) return;
    const { name, namespace, uid } = metadata;
    client.delete(pods, { name, namespace }, { uid }).catch(() => undefined);
  };
  vmInformer.onChange(({ kind, object }) => {
    if (kind !== 'deleted') return;
    gone.add(object.metadata.uid ?? '');
    for (const pod of podInformer.list(object.metadata.namespace)) collect(pod);
  });
  // The pod of a VM that was deleted while its pod was being made is heard of last.
  podInformer.onChange(({ kind, object }) => {
    if (kind === 'added') collect(object);
  });
  const running =
    watched === undefined ? [podInformer.run(stopping.signal), vmInformer.run(stopping.signal)] : [];
  return {
    async stop() {
      stopping.abort();
      await Promise.all(running);
    },
  };
}
