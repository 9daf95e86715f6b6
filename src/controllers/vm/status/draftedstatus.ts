import { isDeepStrictEqual } from 'node:util';
import { conditionTypes } from '../../../api/reasons.ts';
import { statusRoom, type Vm, type VmStatus } from '../../../api/vm.ts';
import type { Condition } from '../../../api/object.ts';
import { type DecidedCondition, setCondition } from '../../../controller/conditions.ts';
import { shortened } from '../../../errors.ts';
import { withKstatus } from './kstatus.ts';
import { condition, type ConditionDraft, conditionOrder, type StatusDraft } from './statusdraft.ts';

/** The status to write; the very same object as the VM's when nothing has changed. */
export function statusOf(vm: Vm, decidedDraft: StatusDraft, now: Date): VmStatus {
  const { generation, creationTimestamp } = vm.metadata;
  const ageMs = creationTimestamp === undefined ? 0 : now.getTime() - Date.parse(creationTimestamp);
  const draft = withKstatus(decidedDraft, ageMs);
  const decided: DecidedCondition[] = [];
  for (const key of conditionOrder) {
    const value = draft.conditions[key];
    if (value !== undefined) decided.push(decidedCondition(conditionTypes[key], value, generation));
  }
  if (draft.reconciling) {
    const progressing = condition('True', 'Progressing', draft.conditions.ready.message);
    decided.push(decidedCondition(conditionTypes.reconciling, progressing, generation));
  }
  let conditions: Condition[] = (vm.status?.conditions ?? []).filter(({ type }) =>
    decided.some((one) => one.type === type),
  );
  for (const one of decided) conditions = setCondition(conditions, one, now);
  const status: VmStatus = {
    ...(generation === undefined ? {} : { observedGeneration: generation }),
    ...bounded(draft.fields),
    conditions,
  };
  return isDeepStrictEqual(status, vm.status) ? (vm.status as VmStatus) : status;
}

/** With no more of what others say than there is room for: kube-apiserver would refuse all of the status. */
function bounded({ diskGrowth, warnings, ...others }: StatusDraft['fields']): StatusDraft['fields'] {
  return {
    ...others,
    ...(diskGrowth === undefined ? {} : { diskGrowth: shortened(diskGrowth, statusRoom.characters) }),
    ...(warnings === undefined ? {} : { warnings: boundedWarnings(warnings) }),
  };
}

/** It says no number: the warnings of a status come in again for the next one, beside others. */
const moreWarnings = 'there are more warnings, for which there is no room here';

function boundedWarnings(warnings: readonly string[]): string[] {
  const told = warnings.map((warning) => shortened(warning, statusRoom.characters));
  if (told.length <= statusRoom.warnings) return told;
  return [...told.filter((text) => text !== moreWarnings).slice(0, statusRoom.warnings - 1), moreWarnings];
}

function decidedCondition(
  type: string,
  value: ConditionDraft,
  generation: number | undefined,
): DecidedCondition {
  return {
    type,
    status: value.status,
    reason: value.reason,
    message: value.message,
    ...(generation === undefined ? {} : { observedGeneration: generation }),
  };
}

/** Conditions and fields that only tell how far a start has come: no write of their own, they go along with the next. */
const minorReasons = new Set(['PullingImage', 'Prepared', 'Booting', 'Booted']);

/**
 * Whether two states differ only in how far things are. A VM's life is two writes of status, placed and ready; what
 * lies between is written only when it takes long or goes wrong.
 */
export function differsOnlyInProgress(before: VmStatus | undefined, after: VmStatus): boolean {
  if (before === undefined || hasMoved(before, after)) return false;
  return isDeepStrictEqual(essence(before), essence(after));
}

/** Others call the runner where the status says that it is. */
function hasMoved(before: VmStatus, after: VmStatus): boolean {
  const known = before.runner?.address;
  return known !== undefined && after.runner?.address !== undefined && known !== after.runner.address;
}

function essence(status: VmStatus): object {
  const {
    runner: _runner,
    diskSize: _diskSize,
    accelerator: _accelerator,
    conditions = [],
    ...fields
  } = status;
  return {
    ...fields,
    conditions: conditions
      .filter(({ reason }) => !minorReasons.has(reason))
      .map(({ type, status, reason, message, observedGeneration }) => ({
        type,
        status,
        reason,
        message,
        observedGeneration,
      }))
      .sort((a, b) => (a.type < b.type ? -1 : 1)),
  };
}
