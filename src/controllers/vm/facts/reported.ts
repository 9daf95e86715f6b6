import type { Vm } from '../../../api/vm.ts';

/** Whether an operator has reported anything of the VM: the status that kube-apiserver gives each new one says only that no generation was observed. */
export function isReported({ status = {} }: Pick<Vm, 'status'>): boolean {
  return Object.keys(status).some((field) => field !== 'observedGeneration');
}
