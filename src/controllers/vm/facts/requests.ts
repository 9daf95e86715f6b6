import type { Pod } from '../../../api/core.ts';
import { annotations } from '../../../api/meta.ts';
import type { Vm } from '../../../api/vm.ts';
import { isReported } from './reported.ts';

/** A field of spec that asks for something once. */
export type RequestField = 'startRequest' | 'restartRequest' | 'revertRequest';

/**
 * The request that was answered last, as far as it is known without the runner.
 *
 * The revert that a VM was made with is answered from the beginning: it comes from a backup or an old manifest, was meant for the disk of another VM, and
 * the claim that this one names may be what was saved from it.
 */
export function answeredRequest(vm: Vm, field: RequestField): string | undefined {
  // Until then nobody has had time to ask for another.
  if (field === 'revertRequest' && !isReported(vm)) return vm.spec.revertRequest;
  return vm.status?.[field];
}

/** Whether it is asked for and has not been reported as answered. */
export function isDue(vm: Vm, field: RequestField): boolean {
  const asked = vm.spec[field];
  return asked !== undefined && asked !== answeredRequest(vm, field);
}

/** Whether the pod was made when that was asked for already: its first boot answers it. */
export function isMadeWith(pod: Pod, field: RequestField, requested: string | undefined): boolean {
  if (requested === undefined) return false;
  const text = pod.metadata.annotations?.[annotations.runnerSpec] ?? '';
  return text.includes(`"${field}":${JSON.stringify(requested)}`);
}
