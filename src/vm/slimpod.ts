import type { Container, Pod } from '../api/core.ts';
import { labels } from '../api/meta.ts';

/**
 * What is kept of a pod in the cache: of ours everything but managedFields; of all others, which are the most, only
 * what placement counts.
 */
export function slimPod(pod: Pod): Pod {
  const { managedFields: _managedFields, ...metadata } = pod.metadata;
  if (metadata.labels?.[labels.partOf] === 'svc3') return { ...pod, metadata };
  const { name, namespace, uid, resourceVersion, ownerReferences, deletionTimestamp } = metadata;
  const { nodeName, overhead, hostNetwork, containers, initContainers } = pod.spec;
  return defined({
    metadata: defined({ name, namespace, uid, resourceVersion, ownerReferences, deletionTimestamp }),
    spec: defined({
      nodeName,
      overhead,
      hostNetwork,
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
    resources: resources?.requests === undefined ? undefined : { requests: resources.requests },
    ports: hostPorts?.length === 0 ? undefined : hostPorts,
    restartPolicy,
  } as Container);
}

/** Without the members that are undefined. */
function defined<T extends object>(object: T): T {
  const kept: Partial<T> = {};
  for (const key of Object.keys(object) as (keyof T)[]) {
    if (object[key] !== undefined) kept[key] = object[key];
  }
  return kept as T;
}
