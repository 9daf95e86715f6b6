import type { Node } from '../../../api/core.ts';
import { labels } from '../../../api/meta.ts';
import type { KubeObject, Resource, StoredMeta } from '../../../api/object.ts';
import { parseMilli, parseQuantity } from '../../../api/quantity.ts';
import { nodes, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { isSvc3Error, Svc3Error } from '../../../errors.ts';
import type { KubeClient, ListOptions } from '../../../kube/types.ts';
import { metricsGroup, type NodeTopItem, type UsedFigures, type VmTopItem } from '../types.ts';

/** Quantities, by the name of the resource. */
interface Usage {
  readonly cpu?: string;
  readonly memory?: string;
}

interface NodeMetrics extends KubeObject {
  metadata: StoredMeta;
  usage?: Usage;
}

interface PodMetrics extends KubeObject {
  metadata: StoredMeta;
  containers?: readonly { readonly usage?: Usage }[];
}

const served = { group: metricsGroup, version: 'v1beta1' };
const podMetrics: Resource<PodMetrics> = { ...served, plural: 'pods', kind: 'PodMetrics', namespaced: true };
const nodeMetrics: Resource<NodeMetrics> = {
  ...served,
  plural: 'nodes',
  kind: 'NodeMetrics',
  namespaced: false,
};

/**
 * What the pods of VMs use, by the last look of metrics-server; of all namespaces where none is named.
 *
 * @throws NotFound where the cluster has no metrics-server
 */
export async function topVms(client: KubeClient, namespace?: string): Promise<VmTopItem[]> {
  const where = namespace === undefined ? {} : { namespace };
  const [found, measured] = await Promise.all([
    client.list(vms, where),
    figures(client, podMetrics, { ...where, labelSelector: labels.vm }),
  ]);
  const usages = new Map(
    measured.map(({ metadata: { name, namespace }, containers = [] }) => [
      `${namespace}/${name}`,
      used(containers.map(({ usage }) => usage)),
    ]),
  );
  return found.items.map((vm) =>
    vmTopItem(vm, usages.get(`${vm.metadata.namespace}/${vm.status?.podName ?? ''}`)),
  );
}

/**
 * What is used of every node, by the last look of metrics-server.
 *
 * @throws NotFound where the cluster has no metrics-server
 */
export async function topNodes(client: KubeClient): Promise<NodeTopItem[]> {
  const [found, measured] = await Promise.all([client.list(nodes), figures(client, nodeMetrics)]);
  const usages = new Map(measured.map(({ metadata, usage }) => [metadata.name, used([usage])]));
  return found.items.map((node) => nodeTopItem(node, usages.get(node.metadata.name)));
}

async function figures<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  options: ListOptions<T> = {},
): Promise<readonly T[]> {
  try {
    return (await client.list(resource, options)).items;
  } catch (error) {
    if (!isSvc3Error(error, 'NotFound')) throw error;
    throw new Svc3Error(
      'NotFound',
      'The cluster does not serve metrics.k8s.io: install metrics-server; on the local cluster, svc3 dev up --metrics',
      { cause: error },
    );
  }
}

/** The sum of containers; nothing where one of them has no figures yet. */
function used(usages: readonly (Usage | undefined)[]): UsedFigures {
  if (usages.length === 0) return {};
  let [cpu, memory] = [0, 0];
  for (const usage of usages) {
    if (usage?.cpu === undefined || usage.memory === undefined) return {};
    cpu += Number(parseMilli(usage.cpu, 'cpu'));
    memory += parseQuantity(usage.memory, 'memory');
  }
  return { usedCpuMilli: cpu, usedMemoryBytes: memory };
}

function vmTopItem({ metadata, status }: Vm, figuresOfPod: UsedFigures = {}): VmTopItem {
  const { node, effective } = status ?? {};
  return {
    name: metadata.name,
    namespace: metadata.namespace,
    ...(node === undefined ? {} : { node }),
    ...figuresOfPod,
    ...(effective === undefined ? {} : { cpu: effective.cpu, memory: effective.memory }),
  };
}

function nodeTopItem({ metadata, status }: Node, figuresOfNode: UsedFigures = {}): NodeTopItem {
  const { cpu, memory } = status?.allocatable ?? {};
  return {
    name: metadata.name,
    ...figuresOfNode,
    ...(cpu === undefined ? {} : { allocatableCpuMilli: Number(parseMilli(cpu, 'cpu')) }),
    ...(memory === undefined ? {} : { allocatableMemoryBytes: parseQuantity(memory, 'memory') }),
  };
}
