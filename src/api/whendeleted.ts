import type { DataDisk } from './datadisk.ts';
import { annotations } from './meta.ts';
import { inherited } from './template.ts';
import type { Vm } from './vm.ts';

/** Field of the disk that a VM boots from. */
export const bootField = 'disk';

/** Field of a data disk. */
export function dataField({ name }: Pick<DataDisk, 'name'>): string {
  return `disks[${name}]`;
}

/**
 * The data disks that a VM may have: those that its pod has, and those that its spec asks for. One that was taken out and added again with another
 * claim is both until there is another pod.
 */
export function dataDisksOf({ spec, status }: Vm): DataDisk[] {
  const asked = spec.disks ?? [];
  const inForce = status?.effective?.disks ?? [];
  return [...inForce.filter((disk) => !asked.some((other) => isSameDisk(disk, other))), ...asked];
}

/** Whether two data disks of a VM are on one claim: the one that they name, else the one that is made for their name. */
function isSameDisk(one: DataDisk, other: DataDisk): boolean {
  return one.claimName === other.claimName && (one.claimName !== undefined || one.name === other.name);
}

/** Whether a VM has a disk that may stay when it goes; before it is placed its VMConfig may say so. */
export function mayKeepDisk({ spec, status }: Vm): boolean {
  const { storage } = { ...status?.effective?.disk, ...spec.disk };
  if (storage !== undefined) return storage === 'Persistent';
  return spec.config !== undefined && status?.effective === undefined;
}

/**
 * Whether the disks that were made for a VM go with it, whatever is said of them: it is removed as one that never ran. Left over on one that ran after all
 * the annotation says nothing.
 */
export function goesAsNeverRun({ metadata, status }: Vm): boolean {
  return metadata.annotations?.[annotations.neverRan] === 'true' && status?.powerState === undefined;
}

/** Whether the disk is to go with its VM. Its VMConfig's word counts where it was frozen; unknown is Retain, and so is what its spec no longer says. */
export function goesWithVm(vm: Vm): boolean {
  const { spec, status } = vm;
  const { whenDeleted, claimName } = { ...inherited(spec, status?.effective)?.disk, ...spec.disk };
  return whenDeleted === 'Delete' || (claimName === undefined && goesAsNeverRun(vm));
}

/** The same of a data disk: as the spec says now, also where the pod was made before. One that was taken out of the spec stays, whatever has its name. */
export function dataDiskGoes(vm: Vm, disk: DataDisk): boolean {
  const { disks } = vm.spec;
  const asked = disks === undefined ? disk : disks.find((other) => isSameDisk(other, disk));
  if (asked === undefined) return false;
  return asked.whenDeleted === 'Delete' || (disk.claimName === undefined && goesAsNeverRun(vm));
}

/** Fields of the disks on claims that go with the VM when it is deleted as it is now. */
export function disksThatGo(vm: Vm): string[] {
  const data = dataDisksOf(vm).filter((disk) => dataDiskGoes(vm, disk));
  return [...(mayKeepDisk(vm) && goesWithVm(vm) ? [bootField] : []), ...data.map(dataField)];
}
