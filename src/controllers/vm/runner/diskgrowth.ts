import { parseQuantity } from '../../../api/quantity.ts';
import type { Vm } from '../../../api/vm.ts';

/** What became of a growth of the disk. */
export interface DiskGrowth {
  readonly diskSize: number;
  readonly message: string;
  /** The size that was refused. */
  readonly refusedBytes?: number;
}

/** While the disk is smaller than it is to be, only why it does not grow: what became of a growth before says nothing of this one. */
export function growthMessage(
  { spec, status }: Vm,
  diskSize: string | undefined,
  growth: DiskGrowth | undefined,
): string | undefined {
  const asked = spec.disk?.size === undefined ? 0 : parseQuantity(spec.disk.size, 'disk.size');
  const isToGrow = diskSize !== undefined && parseQuantity(diskSize, 'diskSize') < asked;
  if (isToGrow) return growth?.refusedBytes === asked ? growth.message : undefined;
  return growth?.message ?? status?.diskGrowth;
}
