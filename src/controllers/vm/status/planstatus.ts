import type { Vm } from '../../../api/vm.ts';
import type { Observed, PodPlan } from '../decide.ts';
import { isAsleep } from '../facts/hibernation.ts';
import { isPodOf } from '../facts/ownpod.ts';
import { asleepDraft, pendingDraft } from './pending.ts';
import { reportPod } from './report.ts';
import { condition, type ConditionDrafts, type StatusDraft } from './statusdraft.ts';

/**
 * What a plan says of the VM by itself; undefined where what was said stays. What becomes of a pod that is made, and what a
 * runner says, is known only when the pass has acted. Pure.
 */
export function planStatus(
  { vm, node, isNodeLost, isSavedFirst }: Observed,
  plan: Extract<PodPlan, { kind: 'conflict' | 'wait' | 'replace' }>,
): StatusDraft | undefined {
  const pending = (conditions: Partial<ConditionDrafts>) => pendingDraft(vm, conditions, { isSavedFirst });
  switch (plan.kind) {
    case 'conflict':
      return pending({ scheduled: condition('False', 'PodConflict', plan.message) });
    case 'replace':
      // The same pod is made again at once.
      if (plan.reason === 'PullRetry') return undefined;
      if (plan.reason === 'Changed' || plan.reason === 'Unreached')
        return pending({ ready: condition('False', 'Starting', plan.message) });
      if (plan.reason === 'Restarting') return restartingDraft(vm, plan.message);
      return pending({ scheduled: condition('False', plan.reason, plan.message) });
    default: {
      const { pod, settings } = plan;
      if (isAsleep(vm)) return asleepDraft(vm);
      // On a lost node its guest may still run.
      if (isNodeLost && isPodOf(pod, vm) && settings !== undefined)
        return reportPod({ vm, pod, node, runner: undefined, isSavedFirst, ...settings });
      const scheduled = vm.status?.conditions?.find(({ type }) => type === 'Scheduled');
      // A refusal that led here stays readable until the next one, or a node.
      if (scheduled?.status === 'False') return undefined;
      const message = `pod ${pod.metadata.name} is being deleted`;
      return pending({ ready: condition('False', 'Starting', message) });
    }
  }
}

/** What waits for the guest's next start is in force with it, also what is asked for meanwhile: there is nothing that it would go on from. */
function restartingDraft(vm: Vm, message: string): StatusDraft {
  const draft = pendingDraft(vm, { ready: condition('False', 'Restarting', message) });
  const { restartRequired: _restartRequired, ...conditions } = draft.conditions;
  const { suspendedTo: _suspendedTo, memoryHost: _memoryHost, ...fields } = draft.fields;
  return { ...draft, fields, conditions };
}
