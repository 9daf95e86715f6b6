import { typeMeta, vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import { isPersistent } from '../pod/claim.ts';
import { ignoring } from '../ignoring.ts';
import type { VmReconcilerParts } from '../parts.ts';
import {
  differsOnlyInProgress,
  condition,
  type ConditionDrafts,
  type StatusDraft,
  statusOf,
} from './statusdraft.ts';
import { eventsBetween } from './statusevents.ts';

/** The status of a VM without a pod: the effective settings and what is known of the disk stay, what belonged to the pod goes. */
export function pendingDraft(vm: Vm, conditions: Partial<ConditionDrafts>): StatusDraft {
  const { effective, node, diskSize, diskGrowth, revertRequest, startRequest, warnings, powerState } =
    vm.status ?? {};
  const cause = conditions.stalled ?? conditions.scheduled ?? conditions.prepared;
  const sticky = effective !== undefined && isPersistent(effective);
  return {
    fields: {
      ...(effective === undefined ? {} : { effective }),
      // Where the disk is; other VMs may go anywhere.
      ...(sticky && node !== undefined ? { node } : {}),
      ...(diskSize === undefined ? {} : { diskSize }),
      ...(diskGrowth === undefined ? {} : { diskGrowth }),
      ...(revertRequest === undefined ? {} : { revertRequest }),
      ...(startRequest === undefined ? {} : { startRequest }),
      ...(warnings === undefined ? {} : { warnings }),
      // That it has ever booted is what the start deadline goes by.
      ...(powerState === undefined ? {} : { powerState: 'Stopped' as const }),
    },
    conditions: { ready: condition('False', 'Pending', cause?.message ?? ''), ...conditions },
    reconciling: conditions.stalled === undefined,
  };
}

/** Objects of a list come without their type, and an event must say what it regards. */
export function typed(vm: Vm): Vm {
  return { ...vm, ...typeMeta(vms) };
}

/** The only place where the status of a VM is written. */
export class StatusWriter {
  readonly #parts: VmReconcilerParts;

  constructor(parts: VmReconcilerParts) {
    this.#parts = parts;
  }

  /** At most one write of status in a pass, none when nothing has changed. Events follow what was written. */
  async report(vm: Vm, draft: StatusDraft, isSlow = true): Promise<'written' | 'same' | 'later'> {
    const { client, expectations, recorder, now } = this.#parts;
    const status = statusOf(vm, draft, now());
    if (status === vm.status) return 'same';
    if (differsOnlyInProgress(vm.status, status) && (draft.conditions.ready.status === 'True' || !isSlow))
      return 'later';
    const { name = '', namespace = '', uid = '' } = vm.metadata;
    const written = await ignoring(
      ['NotFound'],
      client.apply(vms, { ...typeMeta(vms), metadata: { name, namespace, uid }, status } as Vm, {
        subresource: 'status',
      }),
    );
    if (written !== undefined) {
      expectations.wroteVm(written);
      for (const event of eventsBetween(vm.status, status)) recorder.event(typed(vm), event);
    }
    return 'written';
  }
}
