import type { Node, Pod } from '../../../api/core.ts';
import { annotations, extendedResources } from '../../../api/meta.ts';

/** Whether the pod asks for `/dev/kvm`: its guest runs under no other accelerator. */
export function requestsKvm({ spec }: Pod): boolean {
  return spec.containers.some(({ resources }) => resources?.limits?.[extendedResources.kvm] !== undefined);
}

/** The group that the node agent found on /dev/kvm, where it is not root's; an annotation that is not JSON says nothing. */
export function kvmGroupOf(node: Node | undefined): number | undefined {
  try {
    const hardware: unknown = JSON.parse(node?.metadata.annotations?.[annotations.hardware] ?? '{}');
    const gid = (hardware as { kvm?: { gid?: unknown } }).kvm?.gid;
    return typeof gid === 'number' && Number.isInteger(gid) && gid > 0 ? gid : undefined;
  } catch {
    return undefined;
  }
}

/** Whether the runner of a pod that asks for `/dev/kvm` is not in the group that has it on the node, and may not be able to open it. */
export function lacksKvmGroup(pod: Pod, node: Node | undefined): boolean {
  if (!requestsKvm(pod)) return false;
  const group = kvmGroupOf(node);
  return group !== undefined && pod.spec.securityContext?.supplementalGroups?.includes(group) !== true;
}
