import { typeMeta, vms } from '../../api/resources.ts';
import type { Vm } from '../../api/vm.ts';

/** Objects of a list come without their type, and an event must say what it regards. */
export function typed(vm: Vm): Vm {
  return { ...vm, ...typeMeta(vms) };
}
