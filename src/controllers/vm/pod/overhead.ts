import { tableCacheBytes } from '../../../api/datadisk.ts';
import type { EffectiveSettings } from '../../../api/vm.ts';
import { moreVideoBytes } from '../../../api/videomemory.ts';
import { formatQuantity, parseQuantity } from '../../../api/quantity.ts';
import type { Accelerator } from '../../../placement/facts.ts';
import type { VmSettings } from '../settings.ts';
import { mostExports } from '../../../api/runner.ts';

const Mi = 2 ** 20;

/** QEMU's own memory beside the guest's: devices, disk cache, display. Measured: 160 MiB. */
const qemuBytes = 160 * Mi;
/**
 * QEMU's buffers for 250 TCP connections of the guest or more: user-mode networking takes 140 to 256 KiB for an open one (measured: 220 KiB out of a guest,
 * nothing sent yet), and knows no limit (docs/networking.md).
 */
const connectionBytes = 64 * Mi;
/** The runner process. */
const runnerBytes = 90 * Mi;
/**
 * Page tables of the guest: 8 bytes for each page of 4096, in those of QEMU and once more in KVM's, which count for the container as well. Pages are larger, and tables far smaller,
 * only where the node has transparent huge pages, and never in a guest that goes on from a file of its memory.
 */
const pageTableShare = 2 / 512;
/** Sockets and the seed in /run/vm. */
export const runVolumeBytes = 16 * Mi;

/** Translation cache of the emulator (`tb-size=128`): only where the node has no hardware virtualisation. */
export const emulationBytes = 128 * Mi;

/** Grows with what the guest writes; a request, not a limit, so that the node's eviction manager knows about the pod. */
export const ephemeralStorageBytes = 256 * Mi;

/**
 * Limit of the volume of an Ephemeral disk that may have `limitBytes`, so that the kubelet never evicts a pod because what svc3
 * itself writes goes beyond it: the disk and as many copies as a runner keeps, each with the tables of qcow2 (8 bytes for each cluster
 * of 64 KiB to find it, 2 to count it: far below 1 %), the guest's memory in the two forms in which a save has it, and UEFI's variables (64 MiB
 * on ARM) with the runner's small files.
 */
export function stateVolumeBytes(limitBytes: number, guestBytes: number): number {
  return Math.ceil(((1 + mostExports) * limitBytes * 1.01 + 2 * guestBytes + 128 * Mi) / Mi) * Mi;
}

/** What the pod's memory follows from. */
export type MemorySettings = Pick<
  EffectiveSettings,
  'memory' | 'architecture' | 'gpuPassthrough' | 'display' | 'disks'
>;

/** Memory of the pod under hardware virtualisation: guest, a large screen, tables of QCOW2 data disks and overhead, in bytes. */
export function podMemoryBytes(effective: MemorySettings): number {
  const guestBytes = parseQuantity(effective.memory, 'memory');
  const fixed = qemuBytes + connectionBytes + runnerBytes + runVolumeBytes + moreVideoBytes(effective);
  const overhead = fixed + diskTableBytes(effective) + Math.ceil(guestBytes * pageTableShare);
  // Whole Mi, so that the quantity reads well.
  return Math.ceil((guestBytes + overhead) / Mi) * Mi;
}

function diskTableBytes({ disks = [] }: MemorySettings): number {
  return disks.filter(({ format }) => format === 'QCOW2').length * tableCacheBytes;
}

/** CPU of the pod in millicores: guest CPUs divided by the overcommit of the chart. */
export function podCpuMilli(cpu: number, overcommit: number): number {
  return Math.max(1, Math.ceil((cpu * 1000) / overcommit));
}

/** What the runner's container requests for the guest and itself; the memory is its limit as well. */
export function guestResources(
  effective: Pick<EffectiveSettings, 'cpu'> & MemorySettings,
  accelerator: 'auto' | Accelerator,
  { cpuOvercommit }: Pick<VmSettings, 'cpuOvercommit'>,
): { cpu: string; memory: string } {
  const bytes = podMemoryBytes(effective) + (accelerator === 'kvm' ? 0 : emulationBytes);
  return { cpu: `${podCpuMilli(effective.cpu, cpuOvercommit)}m`, memory: formatQuantity(bytes) };
}
