import { hasFinalizer } from '../../../api/finalizer.ts';
import { vms } from '../../../api/resources.ts';
import { addFinalizer } from '../../../controller/finalizer.ts';
import type { KubeClient } from '../../../kube/types.ts';
import type { VmExpectations } from '../expectations.ts';
import type { Pass } from '../pass.ts';

/**
 * Gives the VM our finalizer, before there is a guest: its deletion has to wait for the guest's end.
 *
 * @throws Svc3Error Conflict where the VM is not the one that was observed any more
 */
export async function holdVm(
  { client, expectations }: { readonly client: KubeClient; readonly expectations: VmExpectations },
  pass: Pass,
): Promise<void> {
  const vm = pass.written ?? pass.observed.vm;
  if (hasFinalizer(vm)) return;
  pass.written = await addFinalizer(client, vms, vm);
  expectations.wroteVm(pass.written);
}
