import type { EffectiveSettings } from '../../../api/vm.ts';
import { digestOf } from './imageref.ts';
import type { ResolveSources } from './resolve.ts';

/**
 * Whether the operator has recorded that the very version which a VM runs has a memory that svc3 saved. QEMU's parser of device states is no place
 * for bytes of others: images of registries, uploads, copies and those of other namespaces boot.
 *
 * @param namespace - of the VM
 */
export function hasMemory(
  namespace: string,
  { image, imageName, imageNamespace }: Pick<EffectiveSettings, 'image' | 'imageName' | 'imageNamespace'>,
  sources: Pick<ResolveSources, 'image'>,
): boolean {
  if (imageName === undefined || imageNamespace !== undefined) return false;
  const memory = sources.image(imageName, namespace)?.status?.memory;
  return memory !== undefined && memory.digest === digestOf(image);
}
