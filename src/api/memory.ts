import { z } from 'zod';
import { HostCpu } from './hostcpu.ts';
import type { EffectiveSettings } from './vm.ts';

/**
 * What an image with memory holds beside its disk (docs/adr/0042-memory-beside-the-disk.md). Paths in the image; a runner's export has the
 * parts under the same names.
 */
export const memoryParts = {
  /** The guest's memory, byte by byte. */
  ram: 'ram',
  /** What QEMU knows of its devices. */
  state: 'state',
  /** `SavedMachine`. */
  machine: 'machine.json',
} as const;

export type MemoryPart = (typeof memoryParts)[keyof typeof memoryParts];

/** Most bytes of `machine.json`, and of `state`: screens have their memory in it. */
export const memoryLimits = { machineBytes: 64 * 1024, stateBytes: 1024 ** 3 } as const;

const word = z.string().max(256);

/**
 * The machine that a memory was saved of: it goes on in one that is the same, and in no other. A guest that took over its runner says what it likes:
 * numbers are no greater, and the version no longer, than those of `ImageMemory`, which the status of an Image has.
 */
export const SavedMachine = z.object({
  version: z.literal(1),
  architecture: z.enum(['amd64', 'arm64']),
  /** Versioned, e.g. `pc-q35-10.0`. */
  machineType: word,
  accelerator: z.enum(['kvm', 'tcg']),
  /** The CPU that QEMU was asked for, e.g. `host`. */
  cpuModel: word,
  /** The CPU of the node, where the guest saw it: under kvm. */
  hostCpu: HostCpu.optional(),
  cpu: z.int().min(1).max(1024),
  memoryMiB: z.int().min(1),
  firmware: z.enum(['bios', 'uefi']),
  /** Virtual size of the disk in bytes. */
  diskBytes: z.int().min(0),
  /** Devices as QEMU was told them, in their order, without what differs between VMs. */
  devices: z.array(z.string().max(1024)).max(128),
  /** Version of QEMU, e.g. `10.0.3`. */
  qemu: z.string().max(64),
  /** How long the guest was stopped for the save, in milliseconds. */
  stoppedMs: z.int().min(0).max(86_400_000).optional(),
});
export type SavedMachine = z.infer<typeof SavedMachine>;

/** Why the memory of a VM cannot be saved, whatever it does at the moment; undefined where it can. */
export function memoryRefusal({
  architecture,
  gpuPassthrough,
  disks,
  iso,
}: Pick<EffectiveSettings, 'architecture' | 'gpuPassthrough' | 'disks' | 'iso'>): string | undefined {
  if (architecture === 'amd64' && gpuPassthrough === 'Enabled')
    return 'gpuPassthrough: the memory of a VM with a GPU cannot be saved: the state of the card is not in it';
  if (disks !== undefined && disks.length > 0)
    return 'disks: the memory of a VM with data disks cannot be saved: it would not fit them in another VM';
  if (iso !== undefined)
    return 'iso: the memory of a VM that was started with a CD cannot be saved; eject it and start the VM again';
  return undefined;
}

/**
 * Why the memory of a guest cannot be saved that was started with a CD and has none any more: its machine still has the drive, which no other
 * VM has.
 */
export const ejectedRefusal =
  'iso: the memory of a VM that was started with a CD cannot be saved: its CD was taken out; restart the VM first';

/** Whether this is the sentence of a refusal that holds until the VM is started anew with other settings: it begins with the field. */
export function isMemoryRefusal(message: string): boolean {
  return /^(?:gpuPassthrough|disks|iso): /.test(message);
}

/** What executes a guest, and what it sees of the node. */
export interface GuestHost {
  readonly accelerator: 'kvm' | 'tcg';
  /** Under kvm. */
  readonly hostCpu?: HostCpu | undefined;
}

/** Why a memory does not fit. */
export interface MemoryMisfit {
  readonly reason: 'AcceleratorDiffers' | 'CpuDiffers' | 'MachineDiffers';
  readonly message: string;
}

/**
 * Why a memory cannot go on on this node, by all of it that nodes differ in; undefined where it can. The features of a CPU that the guest found
 * when it booted have to be there; more of them do no harm. Placement asks this before a start, the runner at it. Pure.
 */
export function hostMisfit(saved: GuestHost, node: GuestHost): MemoryMisfit | undefined {
  if (saved.accelerator !== node.accelerator)
    return {
      reason: 'AcceleratorDiffers',
      message: `the memory was saved under ${saved.accelerator}, the node has ${node.accelerator}`,
    };
  if (saved.hostCpu === undefined || node.hostCpu === undefined) return undefined;
  if (saved.hostCpu.model !== node.hostCpu.model)
    return {
      reason: 'CpuDiffers',
      message: `the memory was saved on CPU ${saved.hostCpu.model}, the node has ${node.hostCpu.model}`,
    };
  const here = new Set(node.hostCpu.flags);
  const missing = saved.hostCpu.flags.filter((flag) => !here.has(flag));
  if (missing.length === 0) return undefined;
  const named = missing.slice(0, 5).join(', ');
  return { reason: 'CpuDiffers', message: `the node's CPU lacks features of that of the save: ${named}` };
}

/** What a guest has, whatever node it is on. */
export interface GuestSize {
  readonly cpu: number;
  readonly memoryMiB: number;
}

/** Why a memory cannot go on in a VM of this size, on whatever node; undefined where it can. Asked as `hostMisfit` is. Pure. */
export function sizeMisfit(saved: GuestSize, vm: GuestSize): MemoryMisfit | undefined {
  const compared: readonly (readonly [what: string, before: number, now: number])[] = [
    ['MiB of memory', saved.memoryMiB, vm.memoryMiB],
    ['CPUs', saved.cpu, vm.cpu],
  ];
  const other = compared.find(([, before, now]) => before !== now);
  if (other === undefined) return undefined;
  const [what, before, now] = other;
  return {
    reason: 'MachineDiffers',
    message: `the memory was saved with ${what}: ${before}, the VM has ${now}`,
  };
}
