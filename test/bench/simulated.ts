/**
 * A real control plane whose nodes are simulated, and how objects come and go on it. It cannot show how long a kubelet takes to start a pod, nor a
 * guest; test/bench/boot.ts does.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Pod } from '../../src/api/core.ts';
import { namespaces, pods, vms } from '../../src/api/resources.ts';
import type { Vm } from '../../src/api/vm.ts';
import { createClient, type RootClient } from '../../src/kube/client.ts';
import { loadKubeconfig } from '../../src/kube/connection.ts';
import { createInformer } from '../../src/kube/informer.ts';
import { resourcePath } from '../../src/kube/path.ts';
import type { KubeObject, Resource, Submitted } from '../../src/api/object.ts';
import type { Informer } from '../../src/kube/types.ts';
import { ownControlPlane, type OwnControlPlane } from '../support/controlplane.ts';
import { installDefinitions } from '../support/definitions.ts';
import {
  collectVmPods,
  type SimulatedKubelet,
  simulateKubelet,
  type SimulatedNodeSpec,
} from '../support/kubelet.ts';
import { until } from './until.ts';
import { inParallel } from '../support/parallel.ts';

export const namespace = 'bench';

export interface SimulatedCluster {
  readonly controlPlane: OwnControlPlane;
  /** With all rights; its calls are nobody's of svc3. */
  readonly client: RootClient;
  /** With a bearer token, as a pod has: a client certificate costs kube-apiserver 0.3 ms in every call. */
  readonly operatorKubeconfigPath: string;
  /** One watch of each in this process, whoever looks: what they cost is not what is measured. */
  readonly watched: { readonly pods: Watched<Pod>; readonly vms: Watched<Vm> };
  /** What becomes of the pods. */
  readonly kubelet: Pick<SimulatedKubelet, 'behave'>;
  remove(): Promise<void>;
}

/** Who is told of every object that comes or changes. */
export type Watched<T> = Set<(object: T) => void>;

export async function simulatedCluster(nodes: readonly SimulatedNodeSpec[]): Promise<SimulatedCluster> {
  const controlPlane = await ownControlPlane({ audit: 'Metadata' });
  const client = createClient(await loadKubeconfig(controlPlane.kubeconfigPath), { userAgent: 'bench' });
  const cleanups: (() => Promise<unknown>)[] = [() => controlPlane.remove(), () => client.close()];
  const remove = async () => {
    for (const cleanup of cleanups.reverse()) await cleanup().catch(() => undefined);
  };
  try {
    const operatorKubeconfigPath = await tokenKubeconfig(controlPlane);
    await installDefinitions(client);
    for (const name of [namespace, 'svc3-system', 'svc3-credentials', 'svc3-node'])
      await client.create(namespaces, { metadata: { name } });
    const ending = new AbortController();
    const informers = {
      pods: createInformer<Pod>({ client, resource: pods }),
      vms: createInformer<Vm>({ client, resource: vms }),
    };
    const watched = { pods: told(informers.pods), vms: told(informers.vms) };
    const kubelet = simulateKubelet(client, { watched: informers.pods });
    collectVmPods(client, informers);
    const watching = Promise.all([informers.pods.run(ending.signal), informers.vms.run(ending.signal)]);
    cleanups.push(
      () => watching,
      () => Promise.resolve(ending.abort()),
      () => kubelet.stop(),
    );
    await inParallel(nodes, 20, (node) => kubelet.addNode(node));
    return { controlPlane, client, operatorKubeconfigPath, watched, kubelet, remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function tokenKubeconfig({ dir, server, caPem, adminToken }: OwnControlPlane): Promise<string> {
  const path = join(dir, 'operator.kubeconfig');
  const cluster = { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'a', cluster }],
    users: [{ name: 'a', user: { token: adminToken } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    'current-context': 'a',
  };
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
  return path;
}

function told<T extends KubeObject>(informer: Informer<T>): Watched<T> {
  const listeners: Watched<T> = new Set();
  informer.onChange(({ kind, object }) => {
    if (kind !== 'deleted') for (const listener of listeners) listener(object);
  });
  return listeners;
}

export function barePod(name: string): Submitted<Pod> {
  const requests = { cpu: '100m', memory: '64Mi' };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace },
    spec: { containers: [{ name: 'a', image: 'a', resources: { requests } }] },
  };
}

export function benchVm(name: string, spec: Partial<Vm['spec']> = {}): Submitted<Vm> {
  return {
    apiVersion: 'svc3.dev/v1',
    kind: 'VM',
    metadata: { name, namespace },
    // With digest and architecture no registry is asked: that is not measured here.
    spec: {
      image: `127.0.0.1:1/a@sha256:${'0'.repeat(64)}`,
      architecture: 'amd64',
      cpu: 1,
      memory: '64Mi',
      powerState: 'Running',
      ...spec,
    },
  };
}

export function isPodBound({ spec }: Pod): boolean {
  return spec.nodeName !== undefined;
}

export function isPodRunning({ status }: Pod): boolean {
  return status?.phase === 'Running';
}

export function isVmReady({ status }: Vm): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;
}

/** Notes when each object first fulfils something. */
export interface Observer<M extends string> {
  /** Milliseconds of `performance.now()` when the named object did. */
  at(mark: M, name: string): number | undefined;
  stop(): void;
}

export function observe<T extends KubeObject, M extends string>(
  watched: Watched<T>,
  marks: Readonly<Record<M, (object: T) => boolean>>,
): Observer<M> {
  const seen = new Map<string, number>();
  const tests = Object.entries<(object: T) => boolean>(marks);
  const look = (object: T): void => {
    for (const [mark, isThere] of tests) {
      const key = `${mark} ${object.metadata?.name ?? ''}`;
      if (!seen.has(key) && isThere(object)) seen.set(key, performance.now());
    }
  };
  watched.add(look);
  return {
    at: (mark, name) => seen.get(`${mark} ${name}`),
    stop: () => void watched.delete(look),
  };
}

/** Creates objects at a steady rate; says for each when it was asked for. */
export async function createAtRate<T extends KubeObject>(
  client: RootClient,
  resource: Resource<T>,
  objects: readonly T[],
  perSecond: number,
): Promise<Map<string, number>> {
  const begun = new Map<string, number>();
  const start = performance.now();
  const creating: Promise<unknown>[] = [];
  for (const [index, object] of objects.entries()) {
    await delay(Math.max(0, start + (index * 1000) / perSecond - performance.now()));
    begun.set(object.metadata?.name ?? '', performance.now());
    creating.push(client.create(resource, object));
  }
  await Promise.all(creating);
  return begun;
}

/** Deletes what is named and waits until it is gone, with the pods of VMs. */
export async function deleteAll(
  client: RootClient,
  resource: Resource<Vm> | Resource<Pod>,
  names: Iterable<string>,
  { andWait = true } = {},
): Promise<void> {
  await inParallel(names, 16, (name) =>
    client
      .delete(resource as Resource<KubeObject>, { name, namespace }, { gracePeriodSeconds: 0 })
      .catch(() => undefined),
  );
  if (!andWait) return;
  const isEmpty = async () => {
    const left = await Promise.all([pods, vms].map((kind) => isAnyLeft(client, kind)));
    return !left.includes(true);
  };
  await until('everything to be deleted', isEmpty, { stepMs: 500 });
}

async function isAnyLeft(client: RootClient, kind: Resource<Pod> | Resource<Vm>): Promise<boolean> {
  const path = resourcePath<KubeObject>(kind, { namespace });
  const { body } = await client.request<{ items: object[] }>({ method: 'GET', path, query: { limit: 1 } });
  return body.items.length > 0;
}
