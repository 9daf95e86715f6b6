import type { Container, ContainerStatus, Pod } from './core.ts';
import { parseMilli } from './quantity.ts';

type ResourceList = Readonly<Record<string, string>>;

/** What the kubelet says of a container, or of a pod as a whole. */
interface Reported {
  readonly resources?: { readonly requests?: ResourceList };
  readonly allocatedResources?: ResourceList;
}

/** Whether it runs on beside the containers. */
export function isSidecar(container: Container & { restartPolicy?: string }): boolean {
  return container.restartPolicy === 'Always';
}

/**
 * The spec of a pod with the requests that kube-scheduler counts where they are changed in place (KEP-1287): of each resource the most of what is
 * asked for, what the kubelet has granted and what the container still has; without what is asked for where the node can never give it.
 */
export function countedSpec({ spec, status }: Pod): Pod['spec'] {
  if (status === undefined) return spec;
  const { containerStatuses = [], initContainerStatuses = [], conditions = [] } = status;
  const reported = new Map([...containerStatuses, ...initContainerStatuses].map((one) => [one.name, one]));
  const isInfeasible = conditions.find(({ type }) => type === 'PodResizePending')?.reason === 'Infeasible';
  const counted = (container: Container) => countedContainer(container, reported, isInfeasible);
  const { containers, initContainers, resources } = spec;
  return {
    ...spec,
    containers: containers.map(counted),
    // Of the others it looks at the spec alone: they are over before a pod is resized.
    ...(initContainers === undefined
      ? {}
      : { initContainers: initContainers.map((one) => (isSidecar(one) ? counted(one) : one)) }),
    ...(resources?.requests === undefined
      ? {}
      : { resources: { ...resources, requests: countedAsWhole(resources.requests, status, isInfeasible) } }),
  };
}

function countedContainer(
  container: Container,
  reported: ReadonlyMap<string, ContainerStatus>,
  isInfeasible: boolean,
): Container {
  const status = reported.get(container.name);
  if (status?.resources === undefined) return container;
  const requests = largest(container.resources?.requests, status, isInfeasible);
  return { ...container, resources: { ...container.resources, requests } };
}

/** Only what is asked for of the pod as a whole is counted so. */
function countedAsWhole(asked: ResourceList, status: Reported, isInfeasible: boolean): ResourceList {
  if (status.resources === undefined) return asked;
  const counted = largest(asked, status, isInfeasible);
  return Object.fromEntries(Object.keys(asked).map((resource) => [resource, counted[resource] ?? '0']));
}

function largest(
  asked: ResourceList | undefined,
  { resources, allocatedResources }: Reported,
  isInfeasible: boolean,
): ResourceList {
  const counted = new Map<string, string>();
  for (const list of [isInfeasible ? undefined : asked, resources?.requests, allocatedResources])
    for (const [resource, amount] of Object.entries(list ?? {})) {
      const before = counted.get(resource);
      if (before === undefined || isMore(amount, before)) counted.set(resource, amount);
    }
  return Object.fromEntries(counted);
}

function isMore(amount: string, than: string): boolean {
  return amount !== than && milliOf(amount) > milliOf(than);
}

/** kube-apiserver refuses what is no quantity. */
function milliOf(text: string): bigint {
  try {
    return parseMilli(text);
  } catch {
    return 0n;
  }
}
