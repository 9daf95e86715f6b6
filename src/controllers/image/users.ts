import type { Vm } from '../../api/vm.ts';
import type { VmConfig } from '../../api/vmconfig.ts';
import type { DiskKind } from './place.ts';

/** What a VM names, wherever it stands: its own field, else its VMConfig's. */
function namedBy(vm: Vm, field: 'image' | 'iso', config: VmConfig | undefined): string | undefined {
  return vm.spec[field] ?? config?.spec[field];
}

/**
 * Names of the VMs that need a disk of the store, sorted: those that run from it (whatever version of it) and those that
 * will, since they name it and are not placed yet.
 */
export function usersOf(
  disk: { kind: DiskKind; name: string; repository: string },
  vms: readonly Vm[],
  configOf: (name: string) => VmConfig | undefined,
): string[] {
  const field = disk.kind === 'ISO' ? 'iso' : 'image';
  return vms
    .filter((vm) => {
      const { effective } = vm.status ?? {};
      if (effective !== undefined) return effective[field]?.split('@', 1)[0] === disk.repository;
      const config = vm.spec.config === undefined ? undefined : configOf(vm.spec.config);
      return namedBy(vm, field, config) === disk.name;
    })
    .map((vm) => vm.metadata.name ?? '')
    .sort();
}
