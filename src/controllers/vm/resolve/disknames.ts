import { configKeyOf, namespaceOfDisk } from '../../../api/configkey.ts';
import type { Vm } from '../../../api/vm.ts';
import { templated } from '../facts/standby.ts';
import type { ResolveSources } from './resolve.ts';

/** An Image or ISO by its name. */
export interface DiskName {
  readonly field: 'image' | 'iso';
  readonly name: string;
  readonly namespace: string;
}

/** Whether a VM that is placed now would be made from an Image or ISO: it names it itself, or its VMConfig or the template of its pool does. */
export function namesDisk(
  vm: Vm,
  disk: DiskName,
  sources: Pick<ResolveSources, 'vmConfig' | 'vmPool'>,
): boolean {
  const { field, name, namespace } = disk;
  if (vm.spec.pool !== undefined) {
    const pool = sources.vmPool?.(vm.spec.pool, vm.metadata.namespace);
    return pool !== undefined && namesDisk(templated(vm, pool), disk, sources);
  }
  const key = configKeyOf(vm);
  const config = key === undefined ? undefined : sources.vmConfig(key.name, key.namespace);
  const said = vm.spec[field] ?? config?.spec[field];
  return said === name && namespaceOfDisk(vm, field) === namespace;
}
