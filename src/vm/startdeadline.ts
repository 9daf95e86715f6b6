import type { Vm } from '../api/vm.ts';

/** When a VM that has not booted yet is given up, in milliseconds since 1970; undefined where it never is. */
export function startDeadline(vm: Vm): number | undefined {
  const seconds = vm.status?.effective?.startDeadlineSeconds ?? vm.spec.startDeadlineSeconds;
  const created = vm.metadata.creationTimestamp;
  if (seconds === undefined || created === undefined || hasBooted(vm)) return undefined;
  return Date.parse(created) + seconds * 1000;
}

/** A power state is only ever written once the runner has been at work, and it stays: nothing that has run is deleted. */
function hasBooted(vm: Vm): boolean {
  return vm.status?.powerState !== undefined;
}

export function deadlineMessage(vm: Vm): string {
  const seconds = vm.status?.effective?.startDeadlineSeconds ?? vm.spec.startDeadlineSeconds ?? 0;
  const why = vm.status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
  return `the VM did not boot within ${seconds} seconds and is deleted${why === '' ? '' : `: ${why}`}`;
}
