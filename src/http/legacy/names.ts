import { annotations } from '../../api/meta.ts';
import type { Vm } from '../../api/vm.ts';
import { invalidField } from '../../errors.ts';
import { diskNameFrom } from '../../wire/diskname.ts';
import { subdomain } from '../../wire/names.ts';

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

/** Whether an object can have the name: no other text gets into a path of kube-apiserver. */
export function canBeName(text: string): boolean {
  return subdomain.safeParse(text).success;
}

/** The same objects in the order of their names. */
export function byName<T extends { readonly metadata: { readonly name: string } }>(
  objects: readonly T[],
): T[] {
  return [...objects].sort((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
}

/** A 2.4.x image name (`90GBigSur.img`) as the name of an Image; OCI references stay as they are. */
export function imageName(given: string, field: string): string {
  if (given.includes('/')) return given;
  const name = diskNameFrom(given);
  if (name === '' || name.length > 63)
    throw invalidField(field, 'has no letters or digits, or more than 63 characters');
  return name;
}
