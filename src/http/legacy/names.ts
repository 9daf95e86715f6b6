import { annotations } from '../../api/meta.ts';
import type { Vm } from '../../api/vm.ts';
import { Svc3Error, invalidField } from '../../errors.ts';
import { diskNameFrom } from '../../wire/diskname.ts';
import { listVms } from '../routes/vms.ts';
import { callFor } from '../server/invoke.ts';
import type { GatewayCall } from './row.ts';

/** Exact texts that clients match (contract: "The 2.4.x gateway"). */
export const texts = {
  noCpu: 'No available nodes with sufficient CPU.',
  notDeployed: 'No VMs with that name are currently deployed',
  noDeployments: 'No deployments exists for this VM name',
} as const;

/** The name of a VM as 2.4.x clients know it: its configuration's. */
export function virtualMachineName(vm: Vm): string {
  return vm.metadata.annotations?.[annotations.virtualMachineName] ?? vm.metadata.name ?? '';
}

/** VMs of the namespace with this UID, name or 2.4.x name; asks for the right to list them first. */
export async function vmsNamed(call: GatewayCall<unknown>, name: string, node?: string): Promise<Vm[]> {
  const { namespace, services } = call;
  await callFor(call, listVms, { params: { namespace } });
  const matching = services.caches.vms.objects
    .list(namespace)
    .filter((vm) => vm.metadata.uid === name || vm.metadata.name === name || virtualMachineName(vm) === name)
    .filter((vm) => node === undefined || node === '' || vm.status?.node === node);
  return byName(matching);
}

/** The same objects in the order of their names. */
export function byName<T extends { readonly metadata: { readonly name: string } }>(
  objects: readonly T[],
): T[] {
  return [...objects].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

/** The one VM a request means; several of one name are an error that `svc_node_name` or the id resolves. */
export async function theVm(
  call: GatewayCall<unknown>,
  name: string,
  node: string | undefined,
  text: string,
  reason: 'NotFound' | 'InternalError' = 'NotFound',
): Promise<Vm> {
  const matching = await vmsNamed(call, name, node);
  const exact = matching.filter((vm) => vm.metadata.uid === name);
  const [vm, another] = exact.length > 0 ? exact : matching;
  if (vm === undefined) throw new Svc3Error(reason, text);
  if (another !== undefined) {
    const ids = matching.map(({ metadata }) => metadata.uid).join(', ');
    throw new Svc3Error(
      'BadRequest',
      `svc_vm_name: ${matching.length} VMs are named ${name}; use svc_node_name or one of the ids ${ids}`,
      {
        details: { causes: [{ field: 'svc_vm_name', message: 'is ambiguous' }] },
      },
    );
  }
  return vm;
}

/** A 2.4.x image name (`90GBigSur.img`) as the name of an Image; OCI references stay as they are. */
export function imageName(given: string, field: string): string {
  if (given.includes('/')) return given;
  const name = diskNameFrom(given);
  if (name === '' || name.length > 63)
    throw invalidField(field, 'has no letters or digits, or more than 63 characters');
  return name;
}
