import { finalizer } from '../../../api/meta.ts';
import { vms } from '../../../api/resources.ts';
import type { Vm } from '../../../api/vm.ts';
import type { VmReconcilerParts } from '../parts.ts';

type Parts = Pick<VmReconcilerParts, 'client' | 'expectations'>;

/** Puts our finalizer on a VM, so that it is deleted no sooner than its disk is saved and its guest has ended. */
export async function hold(parts: Parts, vm: Vm): Promise<Vm> {
  const { finalizers = [] } = vm.metadata;
  return finalizers.includes(finalizer) ? vm : setFinalizers(parts, vm, [...finalizers, finalizer]);
}

/** The finalizers without ours; undefined where ours is not among them. */
export function otherFinalizers({ metadata }: Vm): readonly string[] | undefined {
  const { finalizers = [] } = metadata;
  return finalizers.includes(finalizer) ? finalizers.filter((one) => one !== finalizer) : undefined;
}

/** A merge patch replaces the whole list, so it names the version that was seen. */
export async function setFinalizers(
  { client, expectations }: Parts,
  { metadata }: Vm,
  finalizers: readonly string[],
): Promise<Vm> {
  const { name = '', namespace = '', uid, resourceVersion } = metadata;
  const body = { metadata: { uid, resourceVersion, finalizers } };
  const written = await client.patch(vms, { name, namespace }, { type: 'merge', body });
  expectations.wroteVm(written);
  return written;
}
