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
