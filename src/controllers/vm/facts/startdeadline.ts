import { inherited } from '../../../api/template.ts';
import type { Vm } from '../../../api/vm.ts';
import { findCondition } from '../../../controller/conditions.ts';
import { isReported } from './reported.ts';

/** When a VM that has not booted yet is given up, in milliseconds since 1970; undefined where it never is, and where nothing has been reported of it. */
export function startDeadline(vm: Vm): number | undefined {
  const seconds = secondsOf(vm);
  const since = triedSince(vm);
  if (seconds === undefined || since === undefined || hasBooted(vm)) return undefined;
  return since + seconds * 1000;
}

/**
 * Since when an operator has tried to start the VM: one that was restored from a backup, or deployed during an outage, has not used up its time while
 * nobody tried. Another start of the operator does not change it: a condition has the time at which its status changed last, and Ready is False from the
 * first report on. Where a node is lost that is Unknown meanwhile, and other conditions are older.
 */
function triedSince(vm: Vm): number | undefined {
  const { creationTimestamp } = vm.metadata;
  if (creationTimestamp === undefined || !isReported(vm)) return undefined;
  const created = Date.parse(creationTimestamp);
  const { conditions = [] } = vm.status ?? {};
  if (conditions.length === 0) return created;
  const changed = conditions.map(({ lastTransitionTime }) => Date.parse(lastTransitionTime));
  // What was restored along with its status was reported of before it was made.
  return Math.max(created, Math.min(...changed));
}

/** A power state is only ever written once the runner has had QEMU running, and it stays: nothing that has run is deleted. */
function hasBooted(vm: Vm): boolean {
  return vm.status?.powerState !== undefined;
}

/** The VM's own first: it may be another, or none, after the effective settings were frozen. Before that those that are planned hold: it may never be placed. */
function secondsOf({ spec, status }: Vm): number | undefined {
  return (
    spec.startDeadlineSeconds ?? inherited(spec, status?.effective ?? status?.planned)?.startDeadlineSeconds
  );
}

/** Ready alone does not say what a VM that is being started waits for: the conditions of its steps do. */
const whyNotBooted = ['Ready', 'Scheduled', 'Prepared', 'Booted'];

export function deadlineMessage(vm: Vm): string {
  const seconds = secondsOf(vm) ?? 0;
  const why =
    whyNotBooted
      .map((type) => findCondition(vm.status?.conditions, type))
      .find((one) => one !== undefined && one.status !== 'True' && one.message !== '')?.message ?? '';
  return `the VM did not boot within ${seconds} seconds and is deleted${why === '' ? '' : `: ${why}`}`;
}
