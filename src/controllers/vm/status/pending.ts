import { standbyNamePrefix } from '../../../api/meta.ts';
import type { PlannedSettings, Vm } from '../../../api/vm.ts';
import { hasClaims } from '../facts/claim.ts';
import { keepsSettings, stateWithoutGuest } from '../facts/hibernation.ts';
import { answeredRequest } from '../facts/requests.ts';
import { withoutLabelWarning } from '../resolve/livewarnings.ts';
import { growthMessage } from '../runner/diskgrowth.ts';
import { restartCondition } from './report.ts';
import { condition, conditionsIn, type ConditionDrafts, type StatusDraft } from './statusdraft.ts';

/** The pod that was chosen for a VM of a pool: until another is chosen, it has no other. */
function chosenPod({ spec, status }: Vm): string | undefined {
  const { podName } = status ?? {};
  return spec.pool !== undefined || podName?.startsWith(standbyNamePrefix) === true ? podName : undefined;
}

/** What the status of a VM without a pod depends on beside the VM. */
export interface PendingFacts {
  /** The settings that it is to have; those that its status has where it is left out. */
  readonly plan?: PlannedSettings | undefined;
  /** Whether a revert that is asked for waits for images of the disk. */
  readonly isSavedFirst?: boolean;
}

/** The status of a VM without a pod: the effective settings and what is known of the disk stay, what belonged to the pod goes. */
export function pendingDraft(
  vm: Vm,
  conditions: Partial<ConditionDrafts>,
  { plan = vm.status?.planned, isSavedFirst = false }: PendingFacts = {},
): StatusDraft {
  const { effective, node, diskSize } = vm.status ?? {};
  // One that is to grow waits for the next pod.
  const diskGrowth = growthMessage(vm, diskSize, undefined);
  const warnings = withoutLabelWarning(vm.status?.warnings ?? []);
  const podName = chosenPod(vm);
  const { startRequest, restartRequest, suspendedTo } = vm.status ?? {};
  const revertRequest = answeredRequest(vm, 'revertRequest');
  const cause = conditions.stalled ?? conditions.scheduled ?? conditions.prepared;
  const keeps = keepsSettings(vm, isSavedFirst);
  const { restartRequired } = keeps ? (conditionsIn(vm.status?.conditions) ?? {}) : {};
  const memoryHost = keeps ? vm.status?.memoryHost : undefined;
  const powerState = stateWithoutGuest(vm.status);
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
      ...(warnings.length === 0 ? {} : { warnings }),
      ...(powerState === undefined ? {} : { powerState }),
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

/** The same with the changes that wait for the start after the next pod's, as the spec says them now. */
export function waitingDraft(draft: StatusDraft, next: Parameters<typeof restartCondition>[0]): StatusDraft {
  const { restartRequired: _before, ...conditions } = draft.conditions;
  return { ...draft, conditions: { ...conditions, ...restartCondition(next) } };
}

/** The status of a VM whose guest's memory is on its claim. */
export function asleepDraft(vm: Vm): StatusDraft {
  const ready = condition('True', 'Suspended', 'the VM is suspended on its disk');
  const { fields, conditions } = pendingDraft(vm, { ready });
  return {
    fields: { ...fields, powerState: 'Suspended', suspendedTo: 'Disk' },
    conditions,
    reconciling: false,
  };
}
