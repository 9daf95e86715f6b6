import { standbyNamePrefix } from '../../../api/meta.ts';
import type { PlannedSettings, Vm } from '../../../api/vm.ts';
import { hasClaims } from '../facts/claim.ts';
import { keepsSettings } from '../facts/hibernation.ts';
import { condition, conditionsIn, type ConditionDrafts, type StatusDraft } from './statusdraft.ts';

/** The pod that was chosen for a VM of a pool: until another is chosen, it has no other. */
function chosenPod({ spec, status }: Vm): string | undefined {
  const { podName } = status ?? {};
  return spec.pool !== undefined || podName?.startsWith(standbyNamePrefix) === true ? podName : undefined;
}

/** The status of a VM without a pod: the effective settings and what is known of the disk stay, what belonged to the pod goes. */
export function pendingDraft(
  vm: Vm,
  conditions: Partial<ConditionDrafts>,
  plan: PlannedSettings | undefined = vm.status?.planned,
): StatusDraft {
  const { effective, node, diskSize, diskGrowth, warnings, powerState } = vm.status ?? {};
  const podName = chosenPod(vm);
  const { revertRequest, startRequest, restartRequest, suspendedTo, memoryHost } = vm.status ?? {};
  const cause = conditions.stalled ?? conditions.scheduled ?? conditions.prepared;
  const { restartRequired } = keepsSettings(vm) ? (conditionsIn(vm.status?.conditions) ?? {}) : {};
  const sticky = effective !== undefined && hasClaims(effective);
  return {
    fields: {
      ...(effective === undefined ? {} : { effective }),
      ...(effective !== undefined || plan === undefined ? {} : { planned: plan }),
      ...(podName === undefined ? {} : { podName }),
      // Where its disks are; other VMs may go anywhere.
      ...(sticky && node !== undefined ? { node } : {}),
      ...(diskSize === undefined ? {} : { diskSize }),
      ...(diskGrowth === undefined ? {} : { diskGrowth }),
      ...(revertRequest === undefined ? {} : { revertRequest }),
      ...(startRequest === undefined ? {} : { startRequest }),
      ...(restartRequest === undefined ? {} : { restartRequest }),
      ...(warnings === undefined ? {} : { warnings }),
      // That it has ever booted is what the start deadline goes by.
      ...(powerState === undefined ? {} : { powerState: 'Stopped' as const }),
      // Until its runner has said what became of it.
      ...(suspendedTo === 'Disk' ? { suspendedTo } : {}),
      ...(memoryHost === undefined ? {} : { memoryHost }),
    },
    conditions: {
      ...(restartRequired === undefined ? {} : { restartRequired }),
      ready: condition('False', cause?.reason ?? 'Pending', cause?.message ?? ''),
      ...conditions,
    },
    reconciling: conditions.stalled === undefined,
  };
}

/** The status of a VM whose guest's memory is on its claim. */
export function asleepDraft(vm: Vm): StatusDraft {
  const ready = condition('True', 'Suspended', 'the VM is suspended on its disk');
  const { fields } = pendingDraft(vm, {});
  return {
    fields: { ...fields, powerState: 'Suspended', suspendedTo: 'Disk' },
    conditions: { ready },
    reconciling: false,
  };
}
