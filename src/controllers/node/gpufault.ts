import type { NodeCondition, Node } from '../../api/core.ts';
import { nodeConditions } from '../../api/meta.ts';
import type { Vm } from '../../api/vm.ts';
import { hasBundle } from '../vm/facts/bundle.ts';

/** A VM that was given a node's GPUs and cannot use them: a group is busy, a card does not reset. */
export interface GpuFault {
  readonly node: string;
  /** Names the VM and quotes its runner: for who may see the Node itself, not for who sees a list of nodes. */
  readonly message: string;
}

/** What the VM's own condition says of the GPUs of its node. The words are its runner's: of a VM that was given no GPUs they say nothing of the node. */
export function gpuFaultOf(vm: Vm): GpuFault | undefined {
  const { metadata, status } = vm;
  if (metadata.deletionTimestamp !== undefined || status?.node === undefined) return undefined;
  if (status.effective === undefined || !hasBundle(status.effective)) return undefined;
  const booted = status.conditions?.find(({ type }) => type === 'Booted');
  if (booted?.status !== 'False' || booted.reason !== 'GPUUnavailable') return undefined;
  // When the runner tries again says nothing of the node.
  const why = booted.message.replace(/; starting again in .*$/s, '');
  return {
    node: status.node,
    message: `VM ${metadata.namespace}/${metadata.name} cannot use the GPUs: ${why}`,
  };
}

/** A member of a strategic merge patch of `status.conditions`. */
export type ConditionPatch = NodeCondition | { readonly type: string; readonly $patch: 'delete' };

/**
 * What is to be changed of the Node's condition `svc3.dev/GPUUnavailable`, which is there only while it is true;
 * undefined where it is as it should be.
 */
export function gpuConditionPatch(
  node: Node,
  fault: GpuFault | undefined,
  now: Date,
): ConditionPatch | undefined {
  const type = nodeConditions.gpuUnavailable;
  const present = node.status?.conditions?.find((condition) => condition.type === type);
  if (fault === undefined) return present === undefined ? undefined : { type, $patch: 'delete' };
  const { message } = fault;
  const reason = 'GPUUnavailable';
  const stays = present?.status === 'True';
  if (stays && present.message === message && present.reason === reason) return undefined;
  const at = `${now.toISOString().slice(0, 19)}Z`;
  const lastTransitionTime = stays ? (present.lastTransitionTime ?? at) : at;
  return { type, status: 'True', reason, message, lastTransitionTime, lastHeartbeatTime: at };
}
