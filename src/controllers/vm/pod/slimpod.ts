import type { Container, Pod, ResourceRequirements } from '../../../api/core.ts';
import { countedSpec } from '../../../api/countedspec.ts';
import { group, labels as labelNames } from '../../../api/meta.ts';
import { controllerOf } from '../../../api/owner.ts';
import { slimWithLabels } from '../../../api/slim.ts';

/** Only svc3 writes such owners (policy `svc3-own-pods`). */
function isOfVm({ metadata: { ownerReferences = [] } }: Pod): boolean {
  return ownerReferences.some(
    ({ kind, apiVersion }) => (kind === 'VM' || kind === 'VMPool') && apiVersion.startsWith(`${group}/`),
  );
}

/** Whether it has the label of a VM's pod and no owner, as `kubectl delete --cascade=orphan` of the VM leaves it. */
function isLeftOfVm({ metadata }: Pod): boolean {
  return controllerOf({ metadata }) === undefined && metadata.labels?.[labelNames.vm] !== undefined;
}

/**
 * What is kept of a pod in the cache: of a VM's and of a pool's everything but managedFields; of one that may be left of a VM what svc3 has written and what
 * runs in it; of all others, which are the most, only what placement counts, and labels, by which VMs may ask for them as neighbours.
 */
export function slimPod(pod: Pod): Pod {
  const { managedFields: _managedFields, ...metadata } = pod.metadata;
  if (isOfVm(pod)) return { ...pod, metadata };
  return isLeftOfVm(pod) ? slimWithLabels(pod) : countedPod(pod);
}

/** Of any pod only what placement counts, and labels; of a VM's and of a pool's all labels, and affinity, which says where it is to run and beside whom not. */
export function countedPod(pod: Pod): Pod {
  const { name, namespace, uid, resourceVersion, ownerReferences, deletionTimestamp } = pod.metadata;
  const isOurs = isOfVm(pod) || isLeftOfVm(pod);
  const { labels } = isOurs ? pod.metadata : slimWithLabels(pod).metadata;
  // What the kubelet says of a resize is in the requests; without its status, of which there is one for each container.
  const { nodeName, overhead, resources, hostNetwork, containers, initContainers } = countedSpec(pod);
  return defined({
    metadata: defined({
      name,
      namespace,
      uid,
      resourceVersion,
      labels,
      ownerReferences,
      deletionTimestamp,
    }),
    spec: defined({
      nodeName,
      overhead,
      resources: slimResources(resources),
      hostNetwork,
      affinity: isOurs ? pod.spec.affinity : undefined,
      containers: containers.map(slimContainer),
      initContainers: initContainers?.map(slimContainer),
    }) as Pod['spec'],
    status: defined({ phase: pod.status?.phase }),
  } as Pod);
}

function slimContainer(container: Container): Container {
  const { name, resources, ports, restartPolicy } = container as Container & { restartPolicy?: string };
  const hostPorts = ports?.filter(({ hostPort }) => hostPort !== undefined);
  return defined({
    name,
    resources: slimResources(resources),
    ports: hostPorts?.length === 0 ? undefined : hostPorts,
    restartPolicy,
  } as Container);
}

function slimResources(resources: ResourceRequirements | undefined): ResourceRequirements | undefined {
  const requests = resources?.requests ?? {};
  return Object.keys(requests).length === 0 ? undefined : { requests };
}

/** Without the members that are undefined. */
function defined<T extends object>(object: T): T {
  const kept: Partial<T> = {};
  for (const key of Object.keys(object) as (keyof T)[])
    if (object[key] !== undefined) kept[key] = object[key];
  return kept as T;
}
