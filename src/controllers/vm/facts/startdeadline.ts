import type { Vm } from '../../../api/vm.ts';

/** When a VM that has not booted yet is given up, in milliseconds since 1970; undefined where it never is. */
export function startDeadline(vm: Vm): number | undefined {
  const seconds = secondsOf(vm);
  const created = vm.metadata.creationTimestamp;
  if (seconds === undefined || created === undefined || hasBooted(vm)) return undefined;
  return Date.parse(created) + seconds * 1000;
}

/** A power state is only ever written once the runner has had QEMU running, and it stays: nothing that has run is deleted. */
function hasBooted(vm: Vm): boolean {
  return vm.status?.powerState !== undefined;
}

/** The VM's own first: it may be brought forward after the effective settings were frozen. */
function secondsOf({ spec, status }: Vm): number | undefined {
  return spec.startDeadlineSeconds ?? status?.effective?.startDeadlineSeconds;
}

export function deadlineMessage(vm: Vm): string {
  const seconds = secondsOf(vm) ?? 0;
  const why = vm.status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
  return `the VM did not boot within ${seconds} seconds and is deleted${why === '' ? '' : `: ${why}`}`;
}
