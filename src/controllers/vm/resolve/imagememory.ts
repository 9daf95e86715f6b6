import { flagsOf } from '../../../api/hostcpu.ts';
import type { ImageMemory } from '../../../api/image.ts';
import { type GuestHost, type GuestSize, sizeMisfit } from '../../../api/memory.ts';
import { parseQuantity } from '../../../api/quantity.ts';
import type { EffectiveSettings, MemoryHost, Vm } from '../../../api/vm.ts';
import type { MemoryRequest } from '../../../placement/warmstart.ts';
import { isPersistent } from '../facts/claim.ts';
import { mayBeOnClaim } from '../facts/hibernation.ts';
import { digestOf } from './imageref.ts';
import type { ResolveSources } from './resolve.ts';

type Images = Pick<ResolveSources, 'image'>;
type NamedImage = Pick<EffectiveSettings, 'image' | 'imageName' | 'imageNamespace'>;

/**
 * The memory of the very version that a VM runs, where the operator has recorded that svc3 saved it. QEMU's parser of device states is no place
 * for bytes of others: images of registries, uploads, copies and those of other namespaces boot.
 *
 * @param namespace - of the VM
 */
function memoryOfImage(
  namespace: string,
  { image, imageName, imageNamespace }: NamedImage,
  sources: Images,
): ImageMemory | undefined {
  if (imageName === undefined || imageNamespace !== undefined) return undefined;
  const memory = sources.image(imageName, namespace)?.status?.memory;
  return memory?.digest === digestOf(image) ? memory : undefined;
}

/** Whether there is one. */
export function hasMemory(namespace: string, effective: NamedImage, sources: Images): boolean {
  return memoryOfImage(namespace, effective, sources) !== undefined;
}

/** What placement is to look for: the memory on the VM's claim, else that of its image where its disk is untouched. Pure. */
export function memoryToGoOnFrom(
  vm: Vm,
  effective: EffectiveSettings,
  sources: Images,
): MemoryRequest | undefined {
  if (vm.status?.memoryHost !== undefined && mayBeOnClaim(vm, effective)) return hostOf(vm.status.memoryHost);
  // A guest has run on that disk: it boots.
  if (isPersistent(effective) && vm.status?.powerState !== undefined) return undefined;
  const saved = memoryOfImage(vm.metadata.namespace, effective, sources);
  return saved === undefined ? undefined : { ...hostOf(saved), refusal: refusalOf(saved, effective) };
}

function hostOf({ accelerator, cpuModel, cpuFlags }: MemoryHost): GuestHost {
  if (accelerator === 'tcg' || cpuModel === undefined) return { accelerator };
  return { accelerator, hostCpu: { model: cpuModel, flags: flagsOf(cpuFlags) } };
}

function refusalOf({ cpu, size }: ImageMemory, effective: EffectiveSettings): string | undefined {
  const now: GuestSize = { cpu: effective.cpu, memoryMiB: mebibytesOf(effective.memory) };
  return sizeMisfit({ cpu: cpu ?? now.cpu, memoryMiB: mebibytesOf(size) }, now)?.message;
}

/** As runners are told it. */
function mebibytesOf(memory: string): number {
  return Math.ceil(parseQuantity(memory, 'memory') / 2 ** 20);
}
