import { configKeyOf, namespaceOfDisk } from '../../api/configkey.ts';
import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import type { DiskKind } from './repositorypath.ts';

/** What a VM names, wherever it stands: its own field, else its VMConfig's. */
function namedBy(vm: Vm, field: 'image' | 'iso', config: VmConfig | undefined): string | undefined {
  return vm.spec[field] ?? config?.spec[field];
}

/**
 * Names of the VMs that need a disk of the store, sorted, of those elsewhere the namespaces: those that run from it (whatever version of it) and those that
 * will, since they name it and are not placed yet. Nobody runs from what never got anything into the store: a VM that waits for
 * it finds another of the name, or none.
 */
export function usersOf(
  disk: { kind: DiskKind; name: string; namespace: string; repository: string; isStored: boolean },
  vms: readonly Vm[],
  configOf: (name: string, namespace: string) => VmConfig | undefined,
): string[] {
  const field = disk.kind === 'ISO' ? 'iso' : 'image';
  return (
    vms
      .filter((vm) => {
        const { effective } = vm.status ?? {};
        if (effective !== undefined) return effective[field]?.split('@', 1)[0] === disk.repository;
        if (!disk.isStored) return false;
        if (namespaceOfDisk(vm, field) !== disk.namespace) return false;
        const key = configKeyOf(vm);
        const config = key === undefined ? undefined : configOf(key.name, key.namespace);
        return namedBy(vm, field, config) === disk.name;
      })
      // Names of another tenant's VMs are not this one's to know.
      .map(({ metadata: { name, namespace } }) =>
        namespace === disk.namespace ? name : `of namespace ${namespace}`,
      )
      .filter((name, index, all) => all.indexOf(name) === index)
      .sort()
  );
}
