import type { DataDisk } from './datadisk.ts';
import type { Vm } from './vm.ts';

/** Field of the disk that a VM boots from. */
export const bootField = 'disk';

/** Field of a data disk. */
export function dataField({ name }: Pick<DataDisk, 'name'>): string {
  return `disks[${name}]`;
}

/** The data disks that a VM may have: those that its pod has, and those that its spec asks for. */
export function dataDisksOf({ spec, status }: Vm): DataDisk[] {
  const all = [...(status?.effective?.disks ?? []), ...(spec.disks ?? [])];
  return [...new Map(all.map((disk) => [disk.name, disk])).values()];
}

/** Whether a VM has a disk that may stay when it goes; before it is placed its VMConfig may say so. */
export function mayKeepDisk({ spec, status }: Vm): boolean {
  const { storage } = { ...status?.effective?.disk, ...spec.disk };
  if (storage !== undefined) return storage === 'Persistent';
  return spec.config !== undefined && status?.effective === undefined;
}

/** Whether the disk is to go with its VM. Its VMConfig's word counts where it was frozen; unknown is Retain. */
export function goesWithVm({ spec, status }: Vm): boolean {
  return { ...status?.effective?.disk, ...spec.disk }.whenDeleted === 'Delete';
}

/** The same of a data disk: as the spec says now, also where the pod was made before. One that was taken out of the spec stays. */
export function dataDiskGoes({ spec }: Vm, disk: DataDisk): boolean {
  const { whenDeleted } =
    spec.disks === undefined ? disk : (spec.disks.find(({ name }) => name === disk.name) ?? {});
  return whenDeleted === 'Delete';
}

/** Fields of the disks on claims that go with the VM when it is deleted as it is now. */
export function disksThatGo(vm: Vm): string[] {
  const data = dataDisksOf(vm).filter((disk) => dataDiskGoes(vm, disk));
  return [...(mayKeepDisk(vm) && goesWithVm(vm) ? [bootField] : []), ...data.map(dataField)];
}
