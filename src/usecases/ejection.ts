import { vms } from '../api/resources.ts';
import type { Vm } from '../api/vm.ts';
import type { KubeClient } from '../kube/types.ts';
import { requireMeant } from '../wire/meant.ts';

export interface EjectionEnvironment {
  /** Whose right it is to change the VM. */
  readonly caller: KubeClient;
  find(): Promise<Vm>;
}

/**
 * Asks for the medium in a VM's CD drive to be taken out. Nothing of a VM says when its runner has done so.
 *
 * @param meant - UID of the VM that is meant: another one of its name is left alone
 * @returns what is said of it
 * @throws Svc3Error NotFound; Conflict where it is another than `meant`
 */
export async function eject({ caller, find }: EjectionEnvironment, meant?: string): Promise<string> {
  const vm = await find();
  requireMeant(vms, vm, meant);
  const { name, namespace, uid } = vm.metadata;
  // Also where there is none: whatever gives it one later, a configuration or a manifest, does not.
  const body = { metadata: { uid }, spec: { iso: '' } };
  await caller.patch(vms, { name, namespace }, { type: 'merge', body });
  return {
    some: `The CD drive of vm ${name} is being emptied`,
    asked: `The CD drive of vm ${name} was asked to be emptied before`,
    none: `vm ${name} has no CD`,
  }[mediumOf(vm)];
}

/** Whether there is a medium to take out, or one was asked to be. What a configuration or pool gives is known once the VM is placed. */
function mediumOf({ spec, status }: Vm): 'some' | 'asked' | 'none' {
  const effective = status?.effective;
  if (spec.iso === '') return effective?.iso === undefined ? 'none' : 'asked';
  if (spec.iso !== undefined || effective?.iso !== undefined) return 'some';
  const isUnknown = effective === undefined && (spec.config ?? spec.pool) !== undefined;
  return isUnknown ? 'some' : 'none';
}
