import type { Pod } from '../../api/core.ts';
import type { Vm } from '../../api/vm.ts';
import { splitKey } from '../../controller/controller.ts';
import type { Priority } from '../../controller/workqueue.ts';
import type { Informer } from '../../kube/types.ts';
import type { VmExpectations } from './expectations.ts';
import { podNamesOf } from './names.ts';

/** What is known of VMs and of pods, and whether all pods are. */
export interface PriorityCaches {
  readonly vms: Pick<Informer<Vm>, 'get'>;
  readonly pods: Pick<Informer<Pod>, 'hasSynced'>;
}

/**
 * Pods first, statuses later: writes take turns at kube-apiserver, in a burst a VM's pod is worth more than another VM's
 * status, and a status that comes a little later often tells in one write what else were two.
 *
 * When the operator starts, it learns of VMs before it learns of their pods, and who waits for a node would wait behind all that run: until
 * pods are known, the status says who has one.
 */
export function priorityOf(
  key: string,
  { vms, pods }: PriorityCaches,
  expectations: Pick<VmExpectations, 'pod'>,
): Priority {
  const { namespace = '', name } = splitKey(key);
  const vm = vms.get(name, namespace);
  if (vm === undefined || vm.metadata.deletionTimestamp !== undefined) return 'normal';
  const { conditions, observedGeneration, podName } = vm.status ?? {};
  // Nobody has seen a VM without conditions yet: nothing of it has changed since.
  const isAsked = conditions !== undefined && observedGeneration !== vm.metadata.generation;
  const hasPod = pods.hasSynced()
    ? podNamesOf(vm).some((pod) => expectations.pod(pod, namespace) !== undefined)
    : podName !== undefined;
  // A claim is short, and somebody waits for it.
  const isClaiming = conditions?.some(({ reason }) => reason === 'Claiming') ?? false;
  return isAsked || !hasPod || isClaiming ? 'normal' : 'low';
}
